//! The grammar of names and ids, the same on every route, in every field and in every header.

use uuid::{Builder, NoContext, Timestamp};

/// The rule for a queue's or tenant's name, as a caller is told it.
pub(crate) const NAME_RULE: &str =
    "1 to 63 bytes of a-z, 0-9, '.', '_' and '-', the first a letter or a digit";

/// The rule for a request's id, as a caller is told it.
pub(crate) const ID_RULE: &str = "1 to 200 bytes of A-Z, a-z, 0-9, '.', '_', '~', ':', '@', '+', \
     '=' and '-', but neither '.' nor '..'";

const MAX_NAME: usize = 63;
const MAX_ID: usize = 200;

/// Whether `text` may name a queue or a tenant.
pub(crate) fn is_name(text: &str) -> bool {
    let lead = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let rest = |byte: &u8| lead(byte) || b"._-".contains(byte);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME && bytes.first().is_some_and(lead) && bytes.iter().all(rest)
}

/// Whether `text` may name a request.
///
/// `.` and `..` are refused because clients and proxies take them out of a path:
/// such a request could be submitted, but never asked for.
pub(crate) fn is_id(text: &str) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~:@+=-".contains(byte);
    let bytes = text.as_bytes();
    (1..=MAX_ID).contains(&bytes.len()) && bytes.iter().all(allowed) && !matches!(text, "." | "..")
}

/// Makes an id for a request whose caller named none.
///
/// Its random part comes from this process's own source: the usual way asks the system for it each time.
pub(crate) fn fresh() -> String {
    let (seconds, nanos) = Timestamp::now(NoContext).to_unix();
    let millis = seconds * 1_000 + u64::from(nanos / 1_000_000);
    Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn ids_with_colons_are_ids() {
        let ids = [
            "a:b", "a:b:c", "a:b:c:d", ":a", "a:", "::", "queue1:x", "result:x", "lock:x",
            "x:claims",
        ];
        for id in ids {
            assert!(is_id(id), "{id} fits the grammar");
        }
    }

    #[test]
    fn of_ids_that_a_path_could_change_only_the_plain_ones_are_ids() {
        let refused = [
            "a/b",
            "a%2Fb",
            "a%252Fb",
            "../x",
            ".",
            "..",
            "a b",
            "x/result",
            "x/cancel",
            "x?wait=1",
            "x#y",
            "\u{e9}",
            "e\u{301}",
            "\u{65e5}\u{672c}",
            "\u{1f600}",
            "%FF",
            "%",
            "a;b",
            "a\\b",
            "\u{ff46}\u{ff55}\u{ff4c}\u{ff4c}",
        ];
        for id in refused {
            assert!(!is_id(id), "{id} must be refused");
        }
        assert!(is_id("a+b"));
    }

    #[test]
    fn control_characters_empty_and_long_ids_are_refused() {
        let refused = [
            "",
            "a\nINFO forged line",
            "a\r\nX-Evil: 1",
            "tab\there",
            "nul\0byte",
            "bell\u{7}",
            "\u{202e}abc",
            "zero\u{200b}width",
            "\u{feff}bom",
            "\u{2028}ls",
            "\u{85}nel",
            "del\u{7f}",
            " lead",
            "trail ",
        ];
        for id in refused {
            assert!(!is_id(id), "{id:?} must be refused");
        }
        assert!(is_id(&"x".repeat(200)));
        for length in [201, 255, 256, 257, 65_536] {
            assert!(!is_id(&"x".repeat(length)), "{length} bytes are too many");
        }
    }

    #[test]
    fn a_name_starts_with_a_letter_or_a_digit_and_stays_in_lower_case() {
        for name in ["q", "0", "chat.large_v2-eu", &"a".repeat(63)] {
            assert!(is_name(name), "{name} fits the grammar");
        }
        let refused =
            ["", "-q", ".q", "_q", "Q", "q/1", "q:1", "{q}", "q q", "\u{e9}", &"a".repeat(64)];
        for name in refused {
            assert!(!is_name(name), "{name} must be refused");
        }
    }

    #[test]
    fn a_made_id_is_a_time_ordered_uuid_that_fits_the_grammar() {
        let (first, second) = (fresh(), fresh());
        assert!(is_id(&first));
        assert_ne!(first, second);
        let version = Uuid::parse_str(&first).map(|id| id.get_version_num());
        assert_eq!(version, Ok(7));
    }
}
