//! How deep a JSON text nests, found without recursion.
//!
//! The payload is never parsed into a tree, so nothing else would stop a body of a million brackets
//! from reaching a parser behind us that does recurse.

/// The most levels of arrays and objects a body may have, its own braces included.
pub(crate) const MAX_DEPTH: usize = 128;

/// Whether `json` nests at most `limit` levels.
///
/// Looks at brackets outside of strings only; whether the text is JSON is for the parser to say.
pub(crate) fn within(json: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' if depth == limit => return false,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

/// Moves past the closing quote of a string whose opening quote was just read.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Vec<u8> {
        [vec![b'['; levels], vec![b']'; levels]].concat()
    }

    #[test]
    fn the_limit_itself_is_allowed_and_one_more_is_not() {
        assert!(within(&nested(MAX_DEPTH), MAX_DEPTH));
        assert!(!within(&nested(MAX_DEPTH + 1), MAX_DEPTH));
    }

    #[test]
    fn siblings_do_not_add_up() {
        assert!(within(br#"[[1],[2],{"a":[3]},[4]]"#, 3));
        assert!(!within(br#"[[1],[2],{"a":[3]},[4]]"#, 2));
    }

    #[test]
    fn brackets_inside_strings_do_not_count_whatever_is_escaped_before_them() {
        assert!(within(br#"{"a":"[[[[","b\"[[":"\\"}"#, 1));
        assert!(!within(br#"{"a":"\\","b":[[]]}"#, 2), "a string may end in a backslash");
        assert!(!within(br#"{"a":"\"","b":[[]]}"#, 2), "and in a quote");
    }

    #[test]
    fn text_that_is_not_json_is_looked_at_to_its_end_without_harm() {
        assert!(within(b"]]]]}}\"\\", 1));
        assert!(within(b"", 0));
        assert!(!within(&vec![b'{'; 1_000_000], MAX_DEPTH));
    }
}
