//! One OpenAI batch line: `{"custom_id", "method", "url", "body"}`.

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

/// A line that can be submitted.
#[derive(Debug)]
pub(super) struct Request {
    /// The caller's name for it, as it is written.
    pub(super) custom_id: Box<RawValue>,
    /// The same, read.
    pub(super) name: String,
    /// The body for the gateway, byte for byte.
    pub(super) body: Box<RawValue>,
}

/// A line that can't.
#[derive(Debug)]
pub(super) struct Unfit {
    /// The caller's name for it, if it could be read.
    pub(super) custom_id: Option<Box<RawValue>>,
    pub(super) fault: Fault,
}

/// How long a `custom_id` may be, with its quotes: the API keeps up to 16 KiB of metadata, `{"custom_id":…}` all in all.
const LONGEST_CUSTOM_ID: usize = (16 << 10) - r#"{"custom_id":}"#.len();

/// What is wrong with a line. What stands in it is not repeated: it may hold a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("no JSON at column {column}")]
    NotJson { column: usize },
    #[error(
        "must be an object of custom_id, method, url and body, each once, and no others (column {column})"
    )]
    NotALine { column: usize },
    #[error("has no {field}")]
    Missing { field: &'static str },
    #[error("custom_id must be a text that is not empty")]
    CustomId,
    #[error("custom_id must be at most {LONGEST_CUSTOM_ID} bytes as it is written here")]
    LongCustomId,
    #[error("method must be \"POST\"")]
    Method,
    #[error("url must be \"{expected}\", the path that the queue calls")]
    Url { expected: String },
    #[error("has the custom_id of line {first}")]
    Repeated { first: u64 },
    #[error("is longer than 64 MiB")]
    TooLong,
}

impl Fault {
    /// One word for programs.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Repeated { .. } => "duplicate-custom-id",
            Self::Url { .. } => "url-mismatch",
            _ => "invalid-line",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow, default)]
    custom_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
}

/// Reads a line whose requests go to `url`.
pub(super) fn parse(line: &[u8], url: &str) -> Result<Request, Unfit> {
    let unread = |fault| Unfit { custom_id: None, fault };
    // A list of four would be taken for an object by its places.
    if line.trim_ascii_start().starts_with(b"[") {
        return Err(unread(Fault::NotALine { column: 1 }));
    }
    // The parser's own words quote the line.
    let fields: Fields<'_> = serde_json::from_slice(line).map_err(|err| {
        let column = err.column();
        unread(match err.classify() {
            Category::Data => Fault::NotALine { column },
            _ => Fault::NotJson { column },
        })
    })?;
    let custom_id =
        fields.custom_id.ok_or_else(|| unread(Fault::Missing { field: "custom_id" }))?;
    let name = text(custom_id).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| unread(Fault::CustomId))?;
    let unfit = |fault| Unfit { custom_id: Some(custom_id.to_owned()), fault };
    if custom_id.get().len() > LONGEST_CUSTOM_ID {
        return Err(unfit(Fault::LongCustomId));
    }
    let missing = |field| unfit(Fault::Missing { field });
    if text(fields.method.ok_or_else(|| missing("method"))?).as_deref() != Some("POST") {
        return Err(unfit(Fault::Method));
    }
    if text(fields.url.ok_or_else(|| missing("url"))?).as_deref() != Some(url) {
        return Err(unfit(Fault::Url { expected: url.to_owned() }));
    }
    let body = fields.body.ok_or_else(|| missing("body"))?.to_owned();
    Ok(Request { custom_id: custom_id.to_owned(), name, body })
}

/// A JSON text, read; nothing if it is something else, or no sequence of characters.
fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str(json.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "/v1/chat/completions";

    fn fault(line: &str) -> Fault {
        parse(line.as_bytes(), URL).unwrap_err().fault
    }

    #[test]
    fn a_body_is_the_bytes_of_the_line() {
        let body = "{ \"n\": 1.0, \"s\":\"\\ud83d\u{2028}\",\"n\":9007199254740993 , \"e\":[ ]}";
        let line = format!(
            "{{\"body\":{body} , \"url\":\"{URL}\",\"method\":\"POST\",\"custom_id\": \"\\u0041\"}}"
        );
        let request = parse(line.as_bytes(), URL).unwrap();
        assert_eq!(request.body.get(), body);
        assert_eq!((request.name.as_str(), request.custom_id.get()), ("A", "\"\\u0041\""));
    }

    #[test]
    fn a_line_that_is_no_batch_line_is_told_without_its_words() {
        for line in [
            "S3CRET",
            "{\"custom_id\":\"S3CRET",
            "[\"S3CRET\", \"POST\", \"/v1/chat/completions\", {}]",
            "\"S3CRET\"",
            "{\"S3CRET\":1}",
            "\u{85}{}",
        ] {
            let fault = fault(line);
            assert!(matches!(fault, Fault::NotJson { .. } | Fault::NotALine { .. }), "{line}");
            assert!(!fault.to_string().contains("S3CRET"), "{fault}");
        }
        assert!(parse(b"{\"custom_id\":\"\xff\"}", URL).is_err());
        let twice = r#"{"custom_id":"a","custom_id":"b","method":"POST","url":"u","body":{}}"#;
        assert!(matches!(fault(twice), Fault::NotALine { .. }));
    }

    #[test]
    fn each_field_must_be_there_and_be_right() {
        let line = |custom_id: &str, method: &str, url: &str| {
            format!(r#"{{"custom_id":{custom_id},"method":{method},"url":{url},"body":{{}}}}"#)
        };
        let right = format!("\"{URL}\"");
        for custom_id in ["\"\"", "5", "{}", "\"\\ud83d\""] {
            assert_eq!(fault(&line(custom_id, "\"POST\"", &right)), Fault::CustomId, "{custom_id}");
        }
        let long = |length| line(&format!("\"{}\"", "a".repeat(length - 2)), "\"POST\"", &right);
        assert_eq!(fault(&long(LONGEST_CUSTOM_ID + 1)), Fault::LongCustomId);
        assert!(parse(long(LONGEST_CUSTOM_ID).as_bytes(), URL).is_ok());
        for method in ["\"GET\"", "\"post\"", "1"] {
            assert_eq!(fault(&line("\"a\"", method, &right)), Fault::Method, "{method}");
        }
        for url in ["\"/v1/embeddings\"", "\"http://h/v1/chat/completions\"", "[]"] {
            let expected = URL.to_owned();
            assert_eq!(fault(&line("\"a\"", "\"POST\"", url)), Fault::Url { expected }, "{url}");
        }
        for (line, field) in [
            ("{}", "custom_id"),
            (r#"{"custom_id":null}"#, "custom_id"),
            (r#"{"custom_id":"a"}"#, "method"),
            (r#"{"custom_id":"a","method":"POST"}"#, "url"),
            (r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions"}"#, "body"),
        ] {
            assert_eq!(fault(line), Fault::Missing { field }, "{line}");
        }
    }

    #[test]
    fn a_line_that_names_itself_is_known_by_its_name() {
        let unfit = parse(br#"{"custom_id":"a","method":"GET"}"#, URL).unwrap_err();
        assert_eq!(unfit.custom_id.unwrap().get(), "\"a\"");
    }
}
