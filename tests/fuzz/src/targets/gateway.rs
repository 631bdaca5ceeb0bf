//! What gateways answer.

use std::io::Read;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use holdfast_core::model::FailureCode;
use holdfast_worker::foreign::{self, KEPT_HEAD, KEPT_HEADERS, Taken};
use tokio::runtime::Runtime;

use super::rules::is_digits;
use crate::draws::Draws;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
});

fn take(sent: &[u8], limit: usize) -> Result<Taken, FailureCode> {
    RUNTIME.block_on(foreign::answer(Bytes::copy_from_slice(sent), limit))
}

/// Status, head and body of an answer, as it comes over a connection of HTTP/1.1.
pub(super) fn answer(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let limit = draws.below(3 * KEPT_HEAD);
    let sent = draws.rest();
    match take(sent, limit) {
        Ok(taken) => taken_rightly(sent, limit, &taken),
        Err(code) => {
            use FailureCode::{CutBody, LyingBody, MalformedHead, Reset};
            assert!([CutBody, LyingBody, MalformedHead, Reset].contains(&code), "{code:?}");
        }
    }
    framed(sent, limit);
}

fn taken_rightly(sent: &[u8], limit: usize, taken: &Taken) {
    assert!((200..1000).contains(&taken.status));
    let most = if taken.is_whole { limit } else { limit.min(KEPT_HEAD) };
    assert!(taken.answer.body.len() <= most.max(if taken.is_whole { 0 } else { KEPT_HEAD }));
    for (name, value) in &taken.answer.headers {
        assert!(KEPT_HEADERS.contains(&name.as_str()), "{name}");
        assert!(holds(sent, value), "a value as it came");
    }
    let lower = sent.to_ascii_lowercase();
    if !holds(&lower, b"transfer-encoding") {
        assert!(holds(sent, &taken.answer.body), "a body as it came");
    }
    one_reading(&lower);
    let encoding = taken.answer.header("content-encoding");
    let times = taken.answer.headers.iter().filter(|it| it.0 == "content-encoding").count();
    let is_gzip = encoding.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"gzip"));
    if taken.is_whole && times == 1 && is_gzip {
        let unpacked = unpacked(&taken.answer.body, limit);
        assert!(unpacked.is_some_and(|length| length <= limit), "a gzip body unpacks");
    }
}

/// Two lengths, or a length and chunks, are two readings of one answer.
fn one_reading(lower: &[u8]) {
    // What comes before the answer itself has a head of its own.
    if lower.starts_with(b"http/1.1 1") || lower.starts_with(b"http/1.0 1") {
        return;
    }
    let lines = lower.split(|byte| *byte == b'\n').map(|it| it.strip_suffix(b"\r").unwrap_or(it));
    let head: Vec<&[u8]> = lines.take_while(|line| !line.is_empty()).collect();
    let count = |name: &[u8]| head.iter().filter(|line| line.starts_with(name)).count();
    let values = head.iter().filter_map(|line| line.strip_prefix(b"content-length:"));
    let mut lengths: Vec<&[u8]> = values.map(<[u8]>::trim_ascii).collect();
    lengths.dedup();
    assert!(lengths.len() <= 1, "{}", lower.escape_ascii());
    let is_chunked = count(b"transfer-encoding:") > 0;
    assert!(lengths.is_empty() || !is_chunked, "{}", lower.escape_ascii());
}

/// Whether a part stands in the bytes.
fn holds(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

/// How long a gzip body is once it is unpacked, as far as that is no more than one above `limit`.
fn unpacked(body: &[u8], limit: usize) -> Option<usize> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).expect("a length") + 1;
    let read = MultiGzDecoder::new(body).take(most).read_to_end(&mut bytes);
    if body.is_empty() { Some(0) } else { read.ok() }
}

/// Any bytes in a right frame are taken as they are; as gzip only if they unpack.
fn framed(body: &[u8], limit: usize) {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n");
    let plain = take(&[head.as_bytes(), b"\r\n", body].concat(), limit).expect("a right frame");
    assert_eq!(plain.is_whole, length <= limit);
    assert!(body.starts_with(&plain.answer.body));
    assert_eq!(
        plain.answer.body.len(),
        if plain.is_whole { length } else { length.min(limit.min(KEPT_HEAD)) }
    );
    let sent = [head.as_bytes(), b"Content-Encoding: gzip\r\n\r\n", body].concat();
    let expected = match (length <= limit, unpacked(body, limit)) {
        (true, Some(unpacked)) => Some(unpacked <= limit),
        (true, None) => None,
        (false, _) => Some(false),
    };
    assert_eq!(take(&sent, limit).ok().map(|taken| taken.is_whole), expected);
}

/// `Retry-After`.
pub(super) fn retry_after(bytes: &[u8]) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let mut draws = Draws::new(bytes);
    let ahead = Duration::from_secs(draws.below(50_000).max(1) as u64);
    let mut fields = Vec::new();
    while !draws.is_empty() {
        fields.push(draws.piece());
    }
    let of = |fields: &[&[u8]]| foreign::retry_after(fields.iter().copied(), now);
    let singles: Vec<Option<Duration>> = fields.iter().map(|field| of(&[field])).collect();
    assert_eq!(of(&fields), singles.iter().copied().flatten().max(), "the longest counts");
    for (field, asked) in fields.iter().zip(singles) {
        assert!(asked.is_none_or(|asked| !asked.is_zero()));
        let text = std::str::from_utf8(field).unwrap_or_default().trim_matches([' ', '\t']);
        let parts: Vec<&str> = text.split(',').map(|part| part.trim_matches([' ', '\t'])).collect();
        let expected = if parts.iter().all(|part| is_digits(part)) {
            let seconds =
                parts.iter().map(|part| part.parse().map_or(Duration::MAX, Duration::from_secs));
            seconds.max()
        } else {
            httpdate::parse_http_date(text).ok().and_then(|date| date.duration_since(now).ok())
        };
        assert_eq!(asked, expected.filter(|wait| !wait.is_zero()));
    }
    let date = httpdate::fmt_http_date(now + ahead);
    assert_eq!(of(&[date.as_bytes()]), Some(ahead));
}
