//! A Lua text as words, each with its place.

use std::ops::Range;

/// One word of a text.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Where it stands, in bytes.
    pub(super) at: Range<usize>,
}

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, or a word of the language.
    Name,
    /// A number or a string.
    Literal,
    Symbol,
}

/// The words of a text, without its first line if that is for Redis, and without its comments.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut at = if text.starts_with("#!") { text.find('\n').unwrap_or(text.len()) } else { 0 };
    let mut tokens = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        let rest = &text[at..];
        let (kind, length) = match byte {
            _ if byte.is_ascii_whitespace() => (None, 1),
            b'-' if rest.starts_with("--") => (None, comment(rest)),
            b'\'' | b'"' => (Some(Kind::Literal), quoted(bytes, at)),
            b'0'..=b'9' => {
                (Some(Kind::Literal), while_in(rest, |it| it.is_alphanumeric() || it == '.'))
            }
            _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                (Some(Kind::Name), while_in(rest, |it| it.is_alphanumeric() || it == '_'))
            }
            _ => (Some(Kind::Symbol), symbol(rest)),
        };
        tokens.extend(kind.map(|kind| Token { kind, at: at..at + length }));
        at += length;
    }
    tokens
}

fn comment(rest: &str) -> usize {
    let (end, after) = if rest.starts_with("--[[") { ("]]", 2) } else { ("\n", 0) };
    rest.find(end).map_or(rest.len(), |found| found + after)
}

fn quoted(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while bytes[at] != bytes[start] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1 - start
}

fn while_in(rest: &str, belongs: impl Fn(char) -> bool) -> usize {
    rest.find(|it: char| !belongs(it)).unwrap_or(rest.len())
}

fn symbol(rest: &str) -> usize {
    let long = ["...", "..", "==", "~=", "<=", ">="];
    long.iter().find(|it| rest.starts_with(**it)).map_or(1, |it| it.len())
}

/// The names in a text.
pub(super) fn names(text: &str) -> impl Iterator<Item = String> + '_ {
    let names = tokens(text).into_iter().filter(|token| token.kind == Kind::Name);
    names.map(|token| text[token.at].to_owned())
}
