//! Commands that a suggestion names, made to go where the command went that is told them.

use crate::args::{OPERATOR, OpsArgs};
use crate::store;

/// How a command begins.
const TOOL: &str = "holdfastctl ";

/// The suggestion with the address flags of `ops` in each operators' command that it names.
pub(crate) fn reaching(suggestion: &str, ops: &OpsArgs) -> String {
    let redis = flags_of_redis(ops);
    let flags = if redis.is_empty() { flags_of_operator(ops) } else { redis.clone() };
    let mut parts = suggestion.split(TOOL);
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (command, rest) = command(part);
        let flags = match command.split(' ').next() {
            Some("queue" | "lease" | "dead" | "worker" | "why" | "retry-now") => &flags,
            // It asks Redis alone.
            Some("doctor") => &redis,
            _ => "",
        };
        told.extend([TOOL, command, flags, rest]);
    }
    told
}

/// The words of a command, and what follows them.
fn command(text: &str) -> (&str, &str) {
    let word = |text: &str| {
        let is_of_it = |c: char| c.is_ascii_lowercase() || c == '-';
        text.find(|c| !is_of_it(c)).unwrap_or(text.len())
    };
    let first = word(text);
    let end = match &text[..first] {
        "queue" | "lease" | "dead" | "worker" => match text[first..].strip_prefix(' ') {
            Some(rest) => first + 1 + word(rest),
            None => first,
        },
        _ => first,
    };
    text.split_at(end)
}

/// A password in the address is not told: it is put in by whoever knows it.
fn flags_of_redis(ops: &OpsArgs) -> String {
    let mut flags = String::new();
    if let Some(url) = ops.redis.redis.as_ref().and_then(store::shown) {
        flags.push_str(&format!(" --redis {}", word(&url)));
    }
    if let Some(path) = &ops.redis.config {
        flags.push_str(&format!(" --config {}", word(&path.display().to_string())));
    }
    flags
}

fn flags_of_operator(ops: &OpsArgs) -> String {
    let mut flags = String::new();
    if ops.operator.0 != OPERATOR {
        flags.push_str(&format!(" --operator {}", word(&ops.operator.0)));
    }
    if let Some(path) = &ops.key_file {
        flags.push_str(&format!(" --key-file {}", word(&path.display().to_string())));
    }
    flags
}

/// A text as one word of a shell.
fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-/:@%+=,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn told(flags: &[&str], suggestion: &str) -> String {
        let line = ["holdfastctl", "why", "a"].iter().chain(flags).map(OsString::from);
        let Command::Why(one) = Args::parse_from(line).command else { panic!("no why") };
        reaching(suggestion, &one.ops)
    }

    const RESUME: &str = "Let it go on: holdfastctl queue resume q.";

    #[test]
    fn a_command_goes_where_the_one_went_that_named_it() {
        assert_eq!(told(&[], RESUME), RESUME);
        for (flags, there) in [
            (&["--operator", "http://h:1"][..], "--operator http://h:1"),
            (&["--redis", "redis://h:1"], "--redis redis://h:1"),
            (&["--config", "a b's.toml"], r"--config 'a b'\''s.toml'"),
            (&["--key-file", "/k"], "--key-file /k"),
        ] {
            let expected = format!("Let it go on: holdfastctl queue resume {there} q.");
            assert_eq!(told(flags, RESUME), expected);
        }
        assert_eq!(
            told(&["--operator", "http://h:1"], "holdfastctl worker ls. holdfastctl retry-now a"),
            "holdfastctl worker ls --operator http://h:1. holdfastctl retry-now --operator http://h:1 a"
        );
    }

    #[test]
    fn what_does_not_take_a_flag_is_not_given_it() {
        for other in ["holdfastctl result a --queue q.", "holdfastctl doctor --queue q."] {
            assert_eq!(told(&["--operator", "http://h:1"], other), other);
        }
        assert_eq!(
            told(&["--redis", "redis://h:1"], "holdfastctl doctor --queue q."),
            "holdfastctl doctor --redis redis://h:1 --queue q."
        );
    }

    #[test]
    fn a_password_is_not_told() {
        let told = told(&["--redis", "redis://ad:S3CRET@h:1"], RESUME);
        assert!(told.contains("@h:1") && !told.contains("S3CRET"), "{told}");
    }
}
