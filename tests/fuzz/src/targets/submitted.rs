//! What callers submit: items, batches, their depth.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use holdfast_producer::foreign::{self, Cut, HORIZON, MAX_DEPTH, Submitted};
use holdfast_runtime::settings::{Allowed, Environment, Settings};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::rules::{is_id, tells_no_secret};
use crate::draws::Draws;

const NOW_MS: u64 = 1_800_000_000_000;
const TIMEOUT: Duration = Duration::from_secs(600);

/// What the queue of these targets allows.
static ALLOWED: LazyLock<Allowed> = LazyLock::new(|| {
    let text = "[redis]\nurl = \"redis://127.0.0.1\"\n[queues.q]\ntarget = \"http://127.0.0.1:1\"\n\
        allow_paths = [\"/v1/embeddings\"]\nallow_headers = [\"x-priority\"]\n";
    let settings = Settings::load(text, &Environment::default()).expect("settings");
    settings.queues.values().next().expect("a queue").allowed.clone()
});

fn read(body: &Bytes) -> Result<Submitted, String> {
    foreign::item(body, NOW_MS, TIMEOUT, &ALLOWED)
}

/// The body of a submit.
pub(super) fn item(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    match read(&body) {
        Ok(item) => accepted(&body, &item),
        Err(refusal) => refused(&refusal),
    }
    wrapped(bytes);
}

fn accepted(body: &Bytes, item: &Submitted) {
    assert!(foreign::nests_within(body, MAX_DEPTH));
    let parts = [Some(&item.payload), item.metadata.as_ref()];
    for part in parts.into_iter().flatten() {
        assert!(body.as_ptr_range().contains(&part.as_ptr()), "not copied");
        serde_json::from_slice::<IgnoredAny>(part).expect("a part is JSON");
    }
    assert_ne!(&item.payload[..], b"null");
    assert!(item.id.as_deref().is_none_or(is_id));
    let latest = NOW_MS + u64::try_from(HORIZON.as_millis()).expect("a time");
    assert!((1..=latest).contains(&item.deadline_ms));
    assert!(item.not_before_ms.is_none_or(|start| (1..item.deadline_ms).contains(&start)));
    let paths = ["/v1/embeddings", "/v1/chat/completions"];
    assert!(item.path.as_deref().is_none_or(|path| paths.contains(&path)));
    assert!(item.headers.len() <= 1 && item.headers.iter().all(|(name, _)| name == "x-priority"));
    let is_plain = |c: char| matches!(c, '\t' | ' '..='~');
    assert!(item.headers.iter().all(|(_, value)| value.chars().all(is_plain)));
    // A reader that makes a tree of it sees the same; it knows no numbers beyond those of a double, and fewer levels.
    let Ok(Value::Object(tree)) = serde_json::from_slice(body) else { return };
    let same = |name: &str, part: Option<&Bytes>| {
        let part: Option<Value> = part.map(|part| serde_json::from_slice(part).expect("JSON"));
        assert_eq!(tree.get(name), part.as_ref(), "{name}");
    };
    same("payload", Some(&item.payload));
    same("metadata", item.metadata.as_ref());
    assert_eq!(tree.get("id").and_then(Value::as_str), item.id.as_deref());
}

fn refused(refusal: &str) {
    let problem: Value = serde_json::from_str(refusal).expect("a problem is JSON");
    let kind = problem["type"].as_str().expect("a type");
    assert!(kind.starts_with("/problems/"), "{kind}");
    assert!((400..500).contains(&problem["status"].as_u64().expect("a status")));
    tells_no_secret(refusal);
}

/// Whatever is JSON and not too deep is taken as a payload, byte for byte.
fn wrapped(payload: &[u8]) {
    let is_json = serde_json::from_slice::<Value>(payload).is_ok_and(|value| !value.is_null());
    if !is_json {
        return;
    }
    let body = Bytes::from([b"{\"id\":\"x\",\"payload\":", payload, b"}"].concat());
    match read(&body) {
        Ok(item) => assert_eq!(item.payload, payload.trim_ascii()),
        Err(_) => assert!(!foreign::nests_within(payload, MAX_DEPTH - 1)),
    }
}

/// How deep a text nests.
pub(super) fn depth(bytes: &[u8]) {
    // Whatever it is, a limit is passed once and for all.
    let fits: Vec<bool> = (0..8).map(|limit| foreign::nests_within(bytes, limit)).collect();
    assert!(fits.is_sorted());
    let Ok(tree) = serde_json::from_slice::<Value>(bytes) else { return };
    let levels = levels(&tree);
    assert!(foreign::nests_within(bytes, levels));
    assert!(levels == 0 || !foreign::nests_within(bytes, levels - 1));
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// A batch, in whatever parts it comes.
pub(super) fn batch(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let (flags, longest) = (draws.byte(), draws.below(300));
    let is_lines = flags & 1 == 1;
    let step = usize::from(flags >> 1) + 1;
    let body = Bytes::copy_from_slice(draws.rest());
    let parts = body.chunks(step).map(|part| body.slice_ref(part));
    let (cuts, fault) = foreign::batch(parts, longest, is_lines);
    let whole = foreign::batch([body.clone()], longest, is_lines);
    assert_eq!((&cuts, &fault), (&whole.0, &whole.1), "the parts make no difference");
    for cut in &cuts {
        stands_there(&body, cut, longest);
    }
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
    let is_array = text.trim_ascii_start_of_json().starts_with(b"[") && !is_lines;
    if !is_array {
        assert_eq!(fault, None);
        let texts: Vec<_> = cuts.into_iter().map(|(.., text)| text.map(|it| it.to_vec())).collect();
        assert_eq!(texts, lines(text, longest));
    } else if let Ok(elements) = serde_json::from_slice::<Vec<&RawValue>>(text) {
        assert_eq!(fault, None);
        let texts = cuts.iter().map(|(.., text)| text.as_deref());
        let elements = elements.iter().map(|element| element.get().as_bytes());
        let same = |(cut, element): (Option<&[u8]>, &[u8])| cut.is_none_or(|it| it == element);
        assert_eq!(cuts.len(), elements.len());
        assert!(texts.zip(elements).all(same));
    }
}

/// The items of a text of lines.
fn lines(text: &[u8], longest: usize) -> Vec<Option<Vec<u8>>> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_start_of_json());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let bare = line.strip_suffix(b"\r").unwrap_or(line);
            let end =
                line.iter().rposition(|byte| !b" \t\r\n".contains(byte)).map_or(0, |at| at + 1);
            (bare.len() <= longest).then(|| line[..end].to_vec())
        })
        .collect()
}

/// Line and column are where the text stands in the body.
fn stands_there(body: &[u8], (line, column, text): &Cut, longest: usize) {
    let starts = body.split_inclusive(|byte| *byte == b'\n').take(line - 1).map(<[u8]>::len);
    let mark = if *line == 1 && body.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let at = starts.sum::<usize>() + column - 1 + mark;
    let Some(text) = text else { return };
    assert!(text.len() <= longest);
    assert!(body[at..].starts_with(text), "{line}:{column}");
    let is_blank = |byte: Option<&u8>| byte.is_none_or(|byte| b" \t\r\n".contains(byte));
    assert!(text.is_empty() || !is_blank(text.first()) && !is_blank(text.last()));
}

/// White space as JSON knows it: other than Rust's, without the form feed.
trait Blank {
    fn trim_ascii_start_of_json(&self) -> &[u8];
}

impl Blank for [u8] {
    fn trim_ascii_start_of_json(&self) -> &[u8] {
        let blank = self.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        &self[blank..]
    }
}

/// What holdfastctl submits for a line is an item with its very body, unless the API has a limit for that.
pub(super) fn taken(item: &Bytes, payload: &str, custom_id: &str) {
    match read(item) {
        Ok(read) => {
            assert_eq!(read.payload, payload);
            let metadata = format!("{{\"custom_id\":{custom_id}}}");
            assert_eq!(read.metadata.as_deref(), Some(metadata.as_bytes()));
        }
        Err(refusal) => {
            let limited = payload == "null"
                || custom_id.len() > 16_000
                || !foreign::nests_within(payload.as_bytes(), MAX_DEPTH - 1);
            assert!(limited, "{refusal}");
        }
    }
}
