//! What is known of a request that came in, as Rust values and as JSON lines.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hyper::{HeaderMap, Method};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A request that came in whole.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its place in the order of arrivals, from 1.
    pub number: u64,
    /// When it was whole, since the stand-in started, by the monotonic clock.
    pub since_start: Duration,
    /// The same moment by the wall clock, in ms: for readers, nothing is decided by it.
    pub unix_ms: u64,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The headers as received.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
    /// How it ended; none while it waits for its answer.
    pub end: Option<End>,
}

/// What became of an arrival.
#[derive(Clone, Debug)]
pub struct End {
    /// In which of the ways.
    pub how: How,
    /// When, since the stand-in started.
    pub since_start: Duration,
    /// The status that was sent; none if no head was.
    pub status: Option<u16>,
    /// The bytes of the answer's body that were handed to the connection.
    pub answer: Bytes,
}

/// The ways an arrival can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The whole answer was handed to the connection.
    Given,
    /// The connection was reset by the script.
    Cut,
    /// The client (or the stand-in) went away before the whole answer was handed over.
    Gone,
}

/// How many arrivals there were, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All arrivals.
    pub arrived: u64,
    /// Those answered in full.
    pub given: u64,
    /// Those whose connection the script reset.
    pub cut: u64,
    /// Those whose client went away first.
    pub gone: u64,
}

impl Counts {
    /// How many arrivals wait for their answer.
    pub fn open(&self) -> u64 {
        self.arrived - self.given - self.cut - self.gone
    }
}

/// An arrival as JSON: in the log file, and over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalLine {
    /// [`Arrival::number`].
    pub number: u64,
    /// [`Arrival::since_start`] in ms.
    pub ms: u64,
    /// [`Arrival::unix_ms`].
    pub unix_ms: u64,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Name and value of each header; a byte that is no ASCII stands as the Latin-1 character of its value.
    pub headers: Vec<(String, String)>,
    /// The body's length.
    pub body_bytes: u64,
    /// The body's SHA-256, in hex.
    pub body_sha256: String,
    /// The body; none if the reader asked for none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub body_base64: Option<String>,
    /// How it ended; none while it waits.
    pub end: Option<EndLine>,
}

/// An end as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLine {
    /// In which of the ways.
    pub how: How,
    /// [`End::since_start`] in ms.
    pub ms: u64,
    /// The status that was sent.
    pub status: Option<u16>,
    /// The length of what was given of the answer's body.
    pub answer_bytes: u64,
    /// The SHA-256 of what was given.
    pub answer_sha256: String,
    /// What was given; none if the reader asked for no bodies.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_base64: Option<String>,
}

/// What `GET /stand-in/arrivals` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Kept arrivals in their order.
    pub arrivals: Vec<ArrivalLine>,
    /// `since` for the next page.
    pub next: u64,
    /// All counts at this moment.
    pub counts: Counts,
}

impl Arrival {
    /// The arrival as JSON, with its bodies or without.
    pub fn line(&self, bodies: bool) -> ArrivalLine {
        let latin1 = |value: &[u8]| value.iter().map(|byte| char::from(*byte)).collect();
        let headers = self.headers.iter();
        ArrivalLine {
            number: self.number,
            ms: millis(self.since_start),
            unix_ms: self.unix_ms,
            method: self.method.to_string(),
            path: self.path.clone(),
            headers: headers
                .map(|(name, value)| (name.to_string(), latin1(value.as_bytes())))
                .collect(),
            body_bytes: self.body.len() as u64,
            body_sha256: sha256_hex(&self.body),
            body_base64: bodies.then(|| STANDARD.encode(&self.body)),
            end: self.end.as_ref().map(|end| end.line(bodies)),
        }
    }
}

impl End {
    /// The end as JSON, with the answer's bytes or without.
    pub fn line(&self, bodies: bool) -> EndLine {
        EndLine {
            how: self.how,
            ms: millis(self.since_start),
            status: self.status,
            answer_bytes: self.answer.len() as u64,
            answer_sha256: sha256_hex(&self.answer),
            answer_base64: bodies.then(|| STANDARD.encode(&self.answer)),
        }
    }
}

/// The SHA-256 of some bytes, in lower-case hex.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        for nibble in [byte >> 4, byte & 15] {
            hex.push(char::from(DIGITS[usize::from(nibble)]));
        }
    }
    hex
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_as_everyone_writes_it() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), of_abc);
    }
}
