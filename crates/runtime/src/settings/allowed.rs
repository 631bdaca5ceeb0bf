//! `allow_paths`, `allow_headers`: what a request may say of its own call, beside the body.
//!
//! A path is allowed only as it stands in the list, so whatever could be done with dots, escapes or
//! a host in it has no place to start from. What stands in the lists is checked all the same.

use std::collections::BTreeSet;

use super::given::Given;
use super::section::Section;
use super::target::RequestPath;
use super::value::{Setting, quoted};

/// What a request may name of its own call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    paths: BTreeSet<String>,
    headers: BTreeSet<String>,
}

impl Allowed {
    /// Whether a request may go to this path: the queue's own, or one of the list, byte for byte.
    pub fn path(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether a request may bring a header of this name, given in lower case.
    pub fn header(&self, name: &str) -> bool {
        self.headers.contains(name)
    }
}

/// Reads both lists; `own` is the path that the queue has anyway.
pub(super) fn read(section: &mut Section<'_>, own: Option<&RequestPath>) -> Option<Allowed> {
    let paths: Option<Paths> = section.field("allow_paths", "");
    let headers: Option<Headers> = section.field("allow_headers", "");
    for name in headers.iter().flat_map(|headers| &headers.0) {
        if let Some(why) = never(name) {
            section.check(false, "allow_headers", &format!("must not list {name}: {why}"));
        }
    }
    let paths = paths?.0.into_iter().chain([own?.as_str().to_owned()]).collect();
    Some(Allowed { paths, headers: headers?.0.into_iter().collect() })
}

/// Why a header is never a request's own.
fn never(name: &str) -> Option<&'static str> {
    match name {
        "authorization" | "cookie" | "proxy-authorization" | "x-api-key" | "api-key" => {
            Some("credentials are the worker's own, by credential_file")
        }
        "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade"
        | "http2-settings" => Some("it belongs to a connection, not to a request"),
        "host" | "content-length" | "content-encoding" | "expect" => {
            Some("it follows from the target and the body")
        }
        "x-request-id" | "traceparent" => Some("it is passed on without being listed"),
        "forwarded" | "via" | "x-real-ip" => Some(WHO),
        name if name.starts_with("x-forwarded-") => Some(WHO),
        name if name.starts_with("proxy-") => Some("it belongs to a connection, not to a request"),
        _ => None,
    }
}

const WHO: &str = "it says where a call comes from, and the caller is not asked";

/// Paths, each exactly as a request may name it.
struct Paths(Vec<String>);

impl Setting for Paths {
    const RULE: &'static str = "must be a list of paths like /v1/embeddings, each a slash and then \
        A-Z a-z 0-9 . _ ~ : + = , - and single slashes, without . or .. between them; after one ? \
        a query of the same and & may follow";

    fn read(given: &Given) -> Option<Self> {
        list(given, is_path)
    }

    fn write(&self) -> String {
        written(&self.0)
    }
}

/// Names of headers, in lower case.
struct Headers(Vec<String>);

impl Setting for Headers {
    const RULE: &'static str = "must be a list of names of headers like x-priority";

    fn read(given: &Given) -> Option<Self> {
        let Paths(names) = list(given, is_header)?;
        Some(Self(names.iter().map(|name| name.to_ascii_lowercase()).collect()))
    }

    fn write(&self) -> String {
        written(&self.0)
    }
}

fn list(given: &Given, fits: fn(&str) -> bool) -> Option<Paths> {
    let texts = given.texts()?;
    let all = texts.iter().all(|text| fits(text));
    all.then(|| Paths(texts.into_iter().map(str::to_owned).collect()))
}

fn written(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// No escapes at all: then no reader can see another path in it than the next one.
fn is_path(text: &str) -> bool {
    let (path, query) = text.split_once('?').map_or((text, None), |(path, it)| (path, Some(it)));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:+=,-".contains(&byte);
    let step = |step: &str| !matches!(step, "" | "." | "..") && step.bytes().all(plain);
    let query_fits =
        |query: &str| !query.is_empty() && query.bytes().all(|byte| plain(byte) || byte == b'&');
    path.strip_prefix('/').is_some_and(|steps| steps.split('/').all(step))
        && query.is_none_or(query_fits)
}

/// A token of HTTP.
fn is_header(text: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_list_can_be_read_in_one_way_only() {
        for path in ["/v1/embeddings", "/v1/models/m-1.5:generate", "/v1/x?api-version=2&a=b"] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "",
            "/",
            "v1/x",
            "http://evil/x",
            "//evil/x",
            "/v1//x",
            "/v1/",
            "/v1/../x",
            "/v1/./x",
            "/v1/%2e%2e/x",
            "/v1/a%2fb",
            "/v1/a%5Cb",
            "/v1\\x",
            "/v1/user@host",
            "/v1/x?a=b?c=d",
            "/v1/x?",
            "/v1/x?a=/../b",
            "/v1/x#f",
            "/v1/x\r\nHost: evil",
            "/v1/x y",
            "/v1/\u{e9}",
        ] {
            assert!(!is_path(path), "{path:?}");
        }
    }

    #[test]
    fn what_frames_a_call_or_says_who_calls_is_never_a_requests_own() {
        for name in [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
            "authorization",
            "cookie",
            "proxy-authorization",
            "proxy-connection",
            "x-forwarded-for",
            "x-forwarded-anything",
            "forwarded",
        ] {
            assert!(never(name).is_some(), "{name}");
        }
        assert_eq!(never("x-priority"), None);
        assert_eq!(never("content-type"), None);
    }

    #[test]
    fn only_what_stands_in_the_lists_is_allowed() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let allowed = Allowed { paths: texts(&["/v1/a"]), headers: texts(&["x-a"]) };
        assert!(allowed.path("/v1/a") && allowed.header("x-a"));
        for path in ["/v1/a/", "/v1/A", "/v1/a?x=1", "/v1/b/../a", "/v1/a#f", "//v1/a", ""] {
            assert!(!allowed.path(path), "{path}");
        }
        assert!(!allowed.header("x-b") && !allowed.header("authorization"));
        assert!(!Allowed::default().path("/v1/a"));
    }
}
