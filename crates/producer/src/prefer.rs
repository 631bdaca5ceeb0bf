//! `Prefer: wait=N` of RFC 7240.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::query::seconds;

/// The header of a wish.
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The header that says which wishes were followed.
pub(crate) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// How long the caller would like to wait, if it says so.
///
/// The first `wait` counts. What has no meaning is passed over, as the RFC wants it:
/// a preference is a wish, not a condition.
pub(crate) fn wait(headers: &HeaderMap) -> Option<Duration> {
    headers
        .get_all(PREFER)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(wait_of)
}

/// Reads one preference; its parameters, behind a semicolon, say nothing about `wait`.
fn wait_of(preference: &str) -> Option<Duration> {
    let word = preference.split(';').next()?;
    let (name, value) = word.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("wait") {
        return None;
    }
    let value = value.trim();
    let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    seconds(bare)
}

/// The value of `Preference-Applied` for a wait that was granted.
pub(crate) fn applied(wait: Duration) -> HeaderValue {
    // Digits and letters only: always a header.
    HeaderValue::try_from(format!("wait={}", wait.as_secs()))
        .unwrap_or_else(|_| HeaderValue::from_static("wait"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, value.parse().unwrap());
        }
        wait(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn wait_is_found_among_other_wishes() {
        assert_eq!(of(&["wait=10"]), Some(10));
        assert_eq!(of(&["respond-async, wait=10"]), Some(10));
        assert_eq!(of(&["respond-async", "Wait = 10; foo=bar"]), Some(10));
        assert_eq!(of(&[r#"wait="10""#]), Some(10));
        assert_eq!(of(&["wait=5, wait=10"]), Some(5), "the first counts");
    }

    #[test]
    fn what_has_no_meaning_is_passed_over() {
        assert_eq!(of(&[]), None);
        for value in ["respond-async", "wait", "wait=", "wait=-1", "wait=soon", "await=10", ";=,,"]
        {
            assert_eq!(of(&[value]), None, "{value}");
        }
        assert_eq!(of(&["wait=soon, wait=10"]), Some(10));
    }
}
