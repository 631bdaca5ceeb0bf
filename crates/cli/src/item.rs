//! The text of a submit, written around the payload's bytes.

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Failure;

/// When an answer is of no more use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// As the queue says.
    Default,
    /// At a time, in Unix seconds.
    Deadline(u64),
    /// So long from the submit, as the API reads it.
    Timeout(String),
}

impl Until {
    /// What the command line says; it never says both.
    pub(crate) fn of(deadline: Option<u64>, timeout: Option<&str>) -> Self {
        match (deadline, timeout) {
            (Some(seconds), _) => Self::Deadline(seconds),
            (None, Some(text)) => Self::Timeout(text.to_owned()),
            (None, None) => Self::Default,
        }
    }
}

/// A submit.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) id: &'a str,
    pub(crate) until: &'a Until,
    /// Kept as metadata, as it is written in its line.
    pub(crate) custom_id: Option<&'a RawValue>,
    pub(crate) payload: &'a RawValue,
}

impl Item<'_> {
    /// The body of the call. The payload stands in it byte for byte, and the same item has the same text each time:
    /// the id rule compares bytes.
    pub(crate) fn text(&self) -> Bytes {
        let mut text = format!("{{\"id\":{}", Value::from(self.id));
        match self.until {
            Until::Default => {}
            Until::Deadline(seconds) => text.push_str(&format!(",\"deadline\":{seconds}")),
            Until::Timeout(timeout) => {
                text.push_str(&format!(",\"timeout\":{}", Value::from(timeout.as_str())));
            }
        }
        if let Some(custom_id) = self.custom_id {
            text.push_str(&format!(",\"metadata\":{{\"custom_id\":{}}}", custom_id.get()));
        }
        text.push_str(",\"payload\":");
        text.push_str(self.payload.get());
        text.push('}');
        text.into()
    }
}

/// The one JSON value of a file; what surrounds it, white space and a byte order mark, is no part of it.
pub(crate) fn payload<'a>(place: &str, bytes: &'a [u8]) -> Result<&'a RawValue, Failure> {
    let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // The parser's own words quote the input; the place does not.
    serde_json::from_slice(json).map_err(|err| Failure::Input {
        place: place.to_owned(),
        rule: match json.trim_ascii() {
            [] => "is empty, and must hold one JSON value".to_owned(),
            _ => format!("no JSON at line {}, column {}", err.line(), err.column()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_payload_stands_in_its_item_byte_for_byte() {
        let json = "{ \"a\" : 1.0, \"b\":-0.0,\"n\":9007199254740993,\"e\":[],\"s\":\"\\u00e9\\/é\u{2028}\\ud83d\", \"a\":1e400 }";
        let item = Item { id: "x", until: &Until::Default, custom_id: None, payload: raw(json) };
        assert_eq!(item.text(), format!("{{\"id\":\"x\",\"payload\":{json}}}"));
    }

    #[test]
    fn what_is_asked_for_stands_before_it() {
        let item = |until| {
            Item { id: "a\"b", until, custom_id: Some(raw("\"\\u0041\"")), payload: raw("1") }
                .text()
        };
        assert_eq!(
            item(&Until::Deadline(2_000_000_000)),
            r#"{"id":"a\"b","deadline":2000000000,"metadata":{"custom_id":"\u0041"},"payload":1}"#
        );
        assert_eq!(
            item(&Until::Timeout("9\"0s".to_owned())),
            r#"{"id":"a\"b","timeout":"9\"0s","metadata":{"custom_id":"\u0041"},"payload":1}"#
        );
    }

    #[test]
    fn what_is_not_one_json_value_is_told_by_place_and_not_repeated() {
        assert_eq!(payload("b", b"\xef\xbb\xbf {\"a\":1}\r\n").unwrap().get(), "{\"a\":1}");
        for bytes in
            [&b"1,\"id\":\"x\""[..], b"S3CRET", b"{\"S3CRET", b"\xff", b"", b" \n", b"{}{}"]
        {
            let failure = payload("body.json", bytes).unwrap_err().to_string();
            assert!(failure.starts_with("body.json: ") && !failure.contains("S3CRET"), "{failure}");
        }
    }
}
