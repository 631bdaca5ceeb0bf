//! The rules of the docs, written once more and in another way than the readers have them.

/// Whether a text may name a queue or a tenant.
pub(super) fn is_name(text: &str) -> bool {
    let known = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-');
    (1..=63).contains(&text.chars().count())
        && text.chars().all(known)
        && !text.starts_with(['.', '_', '-'])
}

/// Whether a text may name a request.
pub(super) fn is_id(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "._~:@+=-".contains(c);
    (1..=200).contains(&text.chars().count())
        && text.chars().all(known)
        && text != "."
        && text != ".."
}

/// A part of a path without its escapes; none if that is no text. A sign of percent without two digits behind it stays.
pub(super) fn unescaped(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let is_hex = |two: &&str| two.bytes().all(|byte| byte.is_ascii_hexdigit());
        let escaped = digits.filter(|two| *first == b'%' && is_hex(two));
        match escaped.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Whether a text is a `traceparent` that may be gone on from.
pub(super) fn is_traceparent(text: &str) -> bool {
    let digits = |part: &str| part.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { return false };
    let widths = [version.len(), trace.len(), span.len(), flags.len()] == [2, 32, 16, 2];
    let is_nothing = |part: &str| part.chars().all(|c| c == '0');
    widths
        && parts.iter().all(|part| digits(part))
        && version != "ff"
        && !is_nothing(trace)
        && !is_nothing(span)
}

/// Whether it is a whole number in digits alone.
pub(super) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// What no error may repeat, once it stands in an input.
const SECRET: &str = "S3CRET";

/// Holds that an error text repeats nothing of what came in.
pub(super) fn tells_no_secret(told: &str) {
    assert!(!told.contains(SECRET), "{told}");
}
