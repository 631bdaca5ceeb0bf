//! Makes `requests.jsonl`: chat requests as OpenAI batch lines, of many kinds, from a seed.
//!
//! What they have in common: a reader that parses such a body and writes it again changes it. Each line is
//! `{"custom_id":…,"method":"POST","url":"/v1/chat/completions","body":B}`, with the bytes of `B` exactly
//! between the first `"body":` and the last `}`. Every body is JSON by RFC 8259, nests at most
//! [`MAX_DEPTH`] levels and has no lone surrogates. Only U+000A ends a line; U+2028 and its like stand inside.

#[path = "json.rs"]
mod json;
#[path = "kinds.rs"]
mod kinds;
#[path = "numbers.rs"]
mod numbers;
#[path = "random.rs"]
mod random;
#[path = "texts.rs"]
mod texts;
#[path = "tools.rs"]
mod tools;

use random::Random;

/// The seed of the committed file.
pub(crate) const SEED: u64 = 3;
/// The most levels of lists and objects in a body.
pub(crate) const MAX_DEPTH: usize = 60;
/// The longest body, in bytes.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// How many requests there are of each kind, but for those that are a table of their own.
const EACH: usize = 12;

/// One kind of request: its name, and what makes its n-th body.
type Kind = (&'static str, usize, fn(&mut Random, usize) -> String);

const KINDS: [Kind; 18] = [
    ("tiny", kinds::TINY.len(), kinds::tiny),
    ("plain", EACH, kinds::plain),
    ("unicode", texts::TEXTS.len(), texts::unicode),
    ("escapes", texts::TEXTS.len(), texts::escapes),
    ("code", texts::CODE.len(), texts::code),
    ("tools", EACH, tools::tools),
    ("schema", EACH, tools::schema),
    ("integers", EACH, numbers::integers),
    ("fractions", EACH, numbers::fractions),
    ("biased", EACH, numbers::biased),
    ("nested", EACH, kinds::nested),
    ("empties", EACH, kinds::empties),
    ("spaces", EACH, kinds::spaces),
    ("twice", EACH, kinds::twice),
    ("turns", EACH, kinds::turns),
    ("images", EACH, kinds::images),
    ("long", EACH, kinds::long),
    ("sized", kinds::SIZES.len(), kinds::sized),
];

/// The whole file of a seed.
pub(crate) fn lines(seed: u64) -> Vec<u8> {
    let mut file = Vec::new();
    for (name, count, body) in KINDS {
        // Each kind draws for itself, so that a change of one leaves the lines of the others as they are.
        let salt =
            name.bytes().fold(seed, |salt, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = Random::new(salt);
        for nth in 0..count {
            let body = body(&mut random, nth);
            let head = format!(r#"{{"custom_id":"{name}-{nth:02}","method":"POST","#);
            let line = format!("{head}\"url\":\"/v1/chat/completions\",\"body\":{body}}}\n");
            file.extend_from_slice(line.as_bytes());
        }
    }
    file
}

/// Each line's custom id and the exact bytes of its body.
pub(crate) fn bodies(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let lines = file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(split).collect()
}

fn split(line: &[u8]) -> Option<(String, Vec<u8>)> {
    const BODY: &[u8] = b"\"body\":";
    let after_name = line.strip_prefix(br#"{"custom_id":""#)?;
    let id = after_name.split(|byte| *byte == b'"').next()?;
    let at = line.windows(BODY.len()).position(|window| window == BODY)? + BODY.len();
    let body = line[at..].strip_suffix(b"}")?;
    Some((String::from_utf8(id.to_vec()).ok()?, body.to_vec()))
}

#[cfg(test)]
#[path = "checks.rs"]
mod checks;
