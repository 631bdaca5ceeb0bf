//! What a submit says in its headers.

use axum::http::{HeaderMap, HeaderName};
use holdfast_runtime::traces;

use crate::id::{ID_RULE, is_id};
use crate::problem::{Kind, Problem};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The id of a submit: from its body, else from `Idempotency-Key`; both must agree.
pub(crate) fn choose_id(
    in_body: Option<String>,
    headers: &HeaderMap,
) -> Result<Option<String>, Problem> {
    let refused = |detail: String| {
        Err(Problem::new(Kind::InvalidHeader, detail).with("header", IDEMPOTENCY_KEY.as_str()))
    };
    let mut given = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    let Some(only) = given.next() else { return Ok(in_body) };
    if given.next().is_some() {
        return refused("Idempotency-Key stands there twice".to_owned());
    }
    // A string in quotes, as the draft wants it, or bare, as most clients send it.
    let text = only.to_str().unwrap_or_default().trim();
    let key = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    if !is_id(key) {
        return refused(format!("Idempotency-Key must be {ID_RULE}"));
    }
    match in_body {
        Some(id) if id != key => {
            refused("id and Idempotency-Key differ: give one of them, or the same".to_owned())
        }
        _ => Ok(Some(key.to_owned())),
    }
}

/// Refuses a key where each item has an id of its own.
pub(crate) fn refuse_idempotency_key(headers: &HeaderMap) -> Result<(), Problem> {
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(());
    }
    let told = "a batch takes no Idempotency-Key: give each item an id, and the same batch again is taken once";
    Err(Problem::new(Kind::InvalidHeader, told).with("header", IDEMPOTENCY_KEY.as_str()))
}

/// The caller's trace as it came, if it is one that may be gone on from.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    traces::context(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(in_body: Option<&str>, keys: &[&'static str]) -> Result<Option<String>, Kind> {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append(IDEMPOTENCY_KEY, key.parse().unwrap());
        }
        choose_id(in_body.map(str::to_owned), &headers).map_err(|problem| problem.kind())
    }

    #[test]
    fn the_key_is_the_id_where_there_is_none() {
        assert_eq!(chosen(None, &[]), Ok(None));
        assert_eq!(chosen(Some("a"), &[]), Ok(Some("a".to_owned())));
        assert_eq!(chosen(None, &["b"]), Ok(Some("b".to_owned())));
        assert_eq!(chosen(None, &[r#""b""#]), Ok(Some("b".to_owned())));
        assert_eq!(chosen(Some("a"), &["a"]), Ok(Some("a".to_owned())));
    }

    #[test]
    fn a_key_that_differs_or_breaks_the_rule_is_refused() {
        assert_eq!(chosen(Some("a"), &["b"]), Err(Kind::InvalidHeader));
        for key in ["", "a b", "a/b", r#"""#, r#""""#, ".."] {
            assert_eq!(chosen(None, &[key]), Err(Kind::InvalidHeader), "{key}");
        }
        assert_eq!(chosen(None, &["a", "a"]), Err(Kind::InvalidHeader));
    }

    #[test]
    fn a_trace_is_taken_only_in_its_exact_form() {
        let taken = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, text.parse().unwrap());
            traceparent(&headers).is_some()
        };
        assert!(taken("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        assert!(!taken("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"));
        assert!(!taken("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        assert!(!taken("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"));
        assert!(!taken("00-00000000000000000000000000000000-b7ad6b7169203331-01"));
        assert!(!taken("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"));
        assert!(!taken(""));
    }
}
