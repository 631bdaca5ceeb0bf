//! What holdfastctl reads: files of OpenAI batch lines, answers of servers, and any text that it shows.

use std::io::BufReader;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use holdfast_cli::foreign;
use hyper::StatusCode;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::rules::tells_no_secret;
use super::submitted;
use crate::draws::Draws;

const URL: &str = "/v1/chat/completions";

/// The lines of a file.
pub(super) fn lines(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let room = usize::from(draws.byte()) + 1;
    let file = draws.rest();
    let read = foreign::lines(BufReader::with_capacity(room, file)).expect("a file in memory");
    let mut expected = Vec::new();
    for (at, line) in file.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let bare = if at == 0 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if !bare.iter().all(u8::is_ascii_whitespace) {
            expected.push((at as u64 + 1, Some(bare.to_vec())));
        }
    }
    assert_eq!(read, expected);
}

/// One line, and what is submitted for it.
pub(super) fn batch_line(bytes: &[u8]) {
    match foreign::batch_line(bytes, URL, "f.1") {
        Ok(line) => {
            assert!(!line.name.is_empty());
            assert_eq!(serde_json::from_str(&line.custom_id).ok(), Some(line.name));
            serde_json::from_str::<IgnoredAny>(&line.body).expect("a body is JSON");
            submitted::taken(&line.item, &line.body, &line.custom_id);
        }
        Err(told) => {
            tells_no_secret(&told);
            assert!(!is_line(bytes), "{told}");
        }
    }
}

/// Whether a reader that makes a tree of it sees a line that can be submitted.
fn is_line(bytes: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return false };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    // A name that stands there twice is in the tree once.
    let twice = fields.keys().any(|name| {
        let spelled = format!("\"{name}\"");
        bytes.windows(spelled.len()).filter(|window| *window == spelled.as_bytes()).count() > 1
    });
    let is_escaped = bytes.contains(&b'\\');
    !twice
        && !is_escaped
        && fields.len() == 4
        && text("custom_id").is_some_and(|name| !name.is_empty() && name.len() < 16_000)
        && text("method") == Some("POST")
        && text("url") == Some(URL)
        && fields.get("body").is_some_and(|body| !body.is_null())
}

/// What a batch is answered with, line by line.
pub(super) fn outcomes(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let lines = usize::from(draws.byte());
    let answer = Bytes::copy_from_slice(draws.rest());
    let outcomes = foreign::outcomes(lines, answer.clone());
    assert_eq!(outcomes.len(), lines);
    assert!(outcomes.iter().flatten().all(|status| (100..1000).contains(status)));
    let whole = answer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let without_rest = foreign::outcomes(lines, answer.slice(..whole));
    assert_eq!(outcomes, without_rest, "what came half is not told");
    if whole == 0 {
        assert!(outcomes.iter().all(Option::is_none));
    }
}

/// A refusal, of Holdfast or of whoever answers in its place.
pub(super) fn refusal(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let status = 100 + draws.below(900);
    let status = StatusCode::from_u16(status as u16).expect("a status");
    let answer = Bytes::copy_from_slice(draws.rest());
    let told = foreign::refusal(status, answer.clone());
    assert!(told.contains(&format!("({})", status.as_u16())));
    let is_object = serde_json::from_slice::<Value>(&answer).is_ok_and(|it| it["type"].is_string());
    if !is_object && !told.starts_with("not-holdfast") {
        // A reader without a tree takes numbers that no double holds.
        serde_json::from_slice::<IgnoredAny>(&answer).expect("a problem is JSON");
    }
    if told.starts_with("not-holdfast") && !is_object {
        tells_no_secret(&told);
    }
}

/// An answer's body in a line of a batch's output.
pub(super) fn embedded(bytes: &[u8]) {
    let (line, encoding) = foreign::embedded(bytes).expect("any body fits into a line");
    assert!(!line.contains(['\n', '\r']));
    serde_json::from_str::<IgnoredAny>(&line).expect("a line is JSON");
    let text = || serde_json::from_str::<String>(&line).expect("a string");
    match encoding {
        Some("text") => assert_eq!(text().as_bytes(), bytes),
        Some("base64") => assert_eq!(STANDARD.decode(text()).expect("base64"), bytes),
        Some(other) => panic!("{other} is no encoding"),
        None => {
            let (one, other) =
                (serde_json::from_slice::<Value>(bytes), serde_json::from_str(&line));
            assert_eq!(one.ok(), other.ok(), "the same values");
            let tokens = |text: &[u8]| -> Vec<u8> {
                text.iter().copied().filter(|byte| !b" \t\r\n".contains(byte)).collect()
            };
            assert_eq!(tokens(bytes), tokens(line.as_bytes()), "the same tokens");
        }
    }
}

/// A text on a terminal, and one that may hold addresses.
pub(super) fn shown(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let shown = foreign::shown(&text);
    let acts =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}' | '\u{feff}');
    assert!(!shown.contains(acts), "{}", shown.escape_unicode());
    assert_eq!(foreign::shown(&shown), shown);
    let bare = foreign::without_credentials(&text);
    for address in bare.split("://").skip(1) {
        let end = address.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'));
        let address = &address[..end.unwrap_or(address.len())];
        let is_bare = address.split('@').next().is_none_or(|user| user == "***");
        assert!(!address.contains('@') || is_bare, "{bare}");
    }
}
