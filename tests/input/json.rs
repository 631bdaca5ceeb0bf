//! Writes JSON as text: how a value is spelled is the point of this input, so no library spells it.

use super::random::Random;

/// A string, escaped only where it must be.
pub(super) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A string in which everything that can be is an escape, astral characters as pairs.
pub(super) fn escaped(random: &mut Random, text: &str) -> String {
    let mut out = String::from("\"");
    for unit in text.encode_utf16() {
        // Both cases of a digit are JSON, and readers that write again choose one.
        if random.flip() {
            out.push_str(&format!("\\u{unit:04x}"));
        } else {
            out.push_str(&format!("\\u{unit:04X}"));
        }
    }
    out.push('"');
    out
}

/// An object of values that are written already.
pub(super) fn object<K: AsRef<str>, V: AsRef<str>>(
    fields: impl IntoIterator<Item = (K, V)>,
) -> String {
    let field = |(name, value): (K, V)| format!("{}:{}", string(name.as_ref()), value.as_ref());
    format!("{{{}}}", fields.into_iter().map(field).collect::<Vec<_>>().join(","))
}

/// A list of values that are written already.
pub(super) fn list<V: AsRef<str>>(values: impl IntoIterator<Item = V>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.as_ref().to_owned()).collect();
    format!("[{}]", values.join(","))
}

/// The same tokens with white space between them, of the kinds that keep a line one line.
pub(super) fn spaced(random: &mut Random, json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut inside, mut escape) = (false, false);
    for letter in json.chars() {
        let token = !inside && "{}[]:,".contains(letter);
        // Nothing before the first token and after the last: the body is what stands between its braces.
        if token && !out.is_empty() {
            out.push_str(random.pick(&["", " ", "  ", "\t", " \t ", "       "]));
        }
        out.push(letter);
        if token && out.len() < json.len() {
            out.push_str(random.pick(&["", " ", "\t\t", "   "]));
        }
        inside ^= letter == '"' && !escape;
        escape = inside && letter == '\\' && !escape;
    }
    out.truncate(out.trim_end().len());
    out
}
