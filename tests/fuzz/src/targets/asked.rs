//! What callers say beside a body: addresses, queries, cursors, headers.

use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_producer::foreign;
use hyper::Uri;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::runtime::Runtime;

use super::rules::{is_digits, is_id, is_name, is_traceparent, tells_no_secret, unescaped};
use crate::draws::Draws;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().build().expect("a runtime"));

type Named = Option<Result<(String, String), String>>;

fn named(address: &str) -> Option<Named> {
    let uri: Uri = address.parse().ok()?;
    let named = RUNTIME.block_on(foreign::address(uri));
    Some(named.map(|names| names.map(|(queue, id)| (queue, id.text()))))
}

/// An address of a request, percent-decoded.
pub(super) fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(named) = named(text) else { return };
    let uri: Uri = text.parse().expect("it was one before");
    let steps: Vec<&str> = uri.path().split('/').collect();
    let expected = match steps[..] {
        ["", "v1", "queues", queue, "requests", id] if !id.is_empty() => {
            let queue = unescaped(queue).filter(|queue| is_name(queue));
            Some(queue.zip(unescaped(id).filter(|id| is_id(id))))
        }
        _ => None,
    };
    if let Some(Err(refusal)) = &named {
        tells_no_secret(refusal);
    }
    assert_eq!(named.map(Result::ok), expected);
}

/// An id in an address: whatever it holds, it comes back as it was or is refused.
pub(super) fn id(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let escaped: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    let named = named(&format!("/v1/queues/q/requests/{escaped}"));
    let Some(Some(named)) = named else {
        assert!(bytes.len() > 10_000, "an address of escapes is one");
        return;
    };
    let expected = std::str::from_utf8(bytes).ok().filter(|id| is_id(id));
    assert_eq!(named.ok(), expected.map(|id| ("q".to_owned(), id.to_owned())));
}

/// The queries of a result, and of an operator's list.
pub(super) fn query(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let pairs: Vec<(&str, &str)> = text
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    let values = |name| pairs.iter().filter(move |pair| pair.0 == name).map(|pair| pair.1);
    let is_hex = |it: &str| it.len() == 16 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = pairs.iter().all(|(name, value)| match *name {
        "wait" => is_digits(value),
        "generation" => is_hex(value),
        _ => false,
    });
    let once = |name| values(name).count() <= 1;
    let read = foreign::query(text);
    assert_eq!(read.is_ok(), fits && once("wait") && once("generation"));
    if let Ok((wait, generation)) = &read {
        let seconds = |digits: &str| digits.parse().map_or(Duration::MAX, Duration::from_secs);
        let expected = values("wait").next().map(seconds).map(|wait| wait.as_secs());
        assert_eq!(wait.map(|wait| wait.as_secs()), expected);
        let digits = generation.map(|generation| generation.to_string());
        assert_eq!(digits, values("generation").next().map(str::to_ascii_lowercase));
    }
    let limit = foreign::operators_limit(text);
    let expected = match pairs[..] {
        [] => Some(100),
        [("limit", value)] if is_digits(value) => value.parse().ok(),
        _ => None,
    };
    assert_eq!(limit.as_ref().ok(), expected.filter(|limit| (1..=1000).contains(limit)).as_ref());
    for refusal in [read.err(), limit.err()].into_iter().flatten() {
        tells_no_secret(&refusal);
    }
}

/// A cursor: what is taken is written the same.
pub(super) fn cursor(bytes: &[u8]) {
    let encoded = URL_SAFE_NO_PAD.encode(bytes);
    for text in [std::str::from_utf8(bytes).unwrap_or_default(), &encoded] {
        if let Some(again) = foreign::cursor(text) {
            assert_eq!(again, text);
        }
    }
}

/// A header that stands there as often as there are pieces.
fn header(name: HeaderName, bytes: &[u8]) -> (HeaderMap, Vec<HeaderValue>) {
    let mut draws = Draws::new(bytes);
    let mut headers = HeaderMap::new();
    while !draws.is_empty() {
        if let Ok(value) = HeaderValue::from_bytes(draws.piece()) {
            headers.append(name.clone(), value);
        }
    }
    let values = headers.get_all(&name).iter().cloned().collect();
    (headers, values)
}

/// `Prefer`.
pub(super) fn prefer(bytes: &[u8]) {
    let (headers, values) = header(HeaderName::from_static("prefer"), bytes);
    let wait = foreign::preferred_wait(&headers);
    let texts: Vec<&str> = values.iter().filter_map(|value| value.to_str().ok()).collect();
    // The first wish of that name that means something; what stands behind a semicolon belongs to its wish.
    let wishes = texts.iter().flat_map(|text| text.split(','));
    let waits = wishes.filter_map(|wish| {
        let (name, value) = wish.split(';').next()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then_some(value.trim())
    });
    let bare = |value: &str| {
        let is_quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
        if is_quoted { value[1..value.len() - 1].to_owned() } else { value.to_owned() }
    };
    let expected = waits.map(bare).find(|value| is_digits(value));
    let seconds = |digits: String| digits.parse().unwrap_or(u64::MAX);
    assert_eq!(wait.map(|wait| wait.as_secs()), expected.map(seconds));
}

/// `Idempotency-Key`, beside an id of the body or alone.
pub(super) fn idempotency_key(bytes: &[u8]) {
    let (headers, values) = header(HeaderName::from_static("idempotency-key"), bytes);
    let in_body = "in-body".to_owned();
    let alone = foreign::id_of(None, &headers);
    let beside = foreign::id_of(Some(in_body.clone()), &headers);
    let key = match &values[..] {
        [] => {
            assert_eq!((alone, beside), (Ok(None), Ok(Some(in_body))));
            return;
        }
        [only] => only.to_str().unwrap_or_default().trim(),
        _ => "twice is none",
    };
    let is_quoted = key.len() >= 2 && key.starts_with('"') && key.ends_with('"');
    let key = if is_quoted { &key[1..key.len() - 1] } else { key };
    assert_eq!(alone.as_ref().ok(), is_id(key).then(|| Some(key.to_owned())).as_ref());
    assert_eq!(beside.is_ok(), key == in_body);
    for refusal in [alone.err(), beside.err()].into_iter().flatten() {
        tells_no_secret(&refusal);
    }
}

/// `traceparent`.
pub(super) fn traceparent(bytes: &[u8]) {
    let (headers, values) = header(HeaderName::from_static("traceparent"), bytes);
    let first = values.first().and_then(|value| value.to_str().ok());
    let expected = first.filter(|text| is_traceparent(text));
    assert_eq!(foreign::traceparent(&headers).as_deref(), expected);
    let Some(text) = expected else { return };
    // Of the flags those are written on that are known; the rest is as it came.
    let written = holdfast_runtime::traces::context(text).expect("one that may be gone on from");
    assert_eq!(written[3..52], text[3..52]);
    assert_eq!(holdfast_runtime::traces::context(&written), Some(written));
}

/// `Content-Type` and `Content-Encoding`.
pub(super) fn content_type(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let encoding = HeaderValue::from_bytes(draws.piece()).ok();
    let (mut headers, values) = header(CONTENT_TYPE, draws.rest());
    let is_plain = match encoding {
        Some(encoding) if !encoding.is_empty() => {
            let is_plain = encoding.as_bytes().eq_ignore_ascii_case(b"identity");
            headers.insert(CONTENT_ENCODING, encoding);
            is_plain
        }
        _ => true,
    };
    let said = match &values[..] {
        [only] if is_plain => only.to_str().ok().map(str::to_ascii_lowercase),
        _ => None,
    };
    let name = said.as_deref().and_then(|said| said.split(';').next()).unwrap_or_default().trim();
    let lines = ["application/x-ndjson", "application/ndjson", "application/jsonl"];
    if foreign::is_item(&headers) {
        assert_eq!(name, "application/json");
        assert_eq!(foreign::is_batch(&headers), Some(false));
    }
    if let Some(is_lines) = foreign::is_batch(&headers) {
        assert_eq!(is_lines, lines.contains(&name));
        assert!(is_lines || name == "application/json");
        let parameters = said.iter().flat_map(|said| said.split(';').skip(1).map(str::trim));
        let mut charsets = parameters.filter_map(|it| it.strip_prefix("charset="));
        assert!(charsets.all(|charset| charset.trim_matches('"') == "utf-8"));
    }
}
