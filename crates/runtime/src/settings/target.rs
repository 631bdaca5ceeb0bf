//! `target`: the base address of what a queue calls.

use std::fmt;

use hyper::Uri;
use hyper::http::uri::{Authority, Scheme};

use super::given::Given;
use super::value::{Setting, quoted};

/// The base address of an inference server: scheme, host, port, and a path to start from.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    scheme: Scheme,
    authority: Authority,
    /// Without a slash at its end; empty at the root.
    base: String,
}

impl Target {
    fn parse(text: &str) -> Option<Self> {
        // `Uri` drops a fragment without a word.
        if text.contains('#') {
            return None;
        }
        let parts = text.parse::<Uri>().ok()?.into_parts();
        let (scheme, authority) = (parts.scheme?, parts.authority?);
        let path = parts.path_and_query?;
        let known = scheme == Scheme::HTTP || scheme == Scheme::HTTPS;
        let plain = path.query().is_none()
            && !authority.as_str().contains('@')
            && !authority.host().is_empty()
            && !path.path().split('/').any(|step| step == "." || step == "..");
        let port_is_one = authority.as_str().ends_with(authority.host())
            || authority.port_u16().is_some_and(|port| port > 0);
        let base = path.path().trim_end_matches('/').to_owned();
        (known && plain && port_is_one).then_some(Self { scheme, authority, base })
    }

    /// Whether calls are encrypted.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Host and port.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The path that every call begins with, without a slash at its end; empty at the root.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The address of a path behind this one. Nothing, if the path is none.
    pub fn join(&self, path: &RequestPath) -> Option<Uri> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{}", self.base, path.0))
            .build()
            .ok()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.base)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Setting for Target {
    const RULE: &'static str = "must be a base URL like http://127.0.0.1:8000 or \
        https://host/base, without user, password, query or fragment";
    // What could not be parsed may hold a password anywhere.
    const HIDDEN: bool = true;

    fn read(given: &Given) -> Option<Self> {
        Self::parse(given.text()?)
    }

    fn write(&self) -> String {
        quoted(&self.to_string())
    }
}

/// A path that a request goes to: absolute, without `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath(String);

impl RequestPath {
    /// The path, from its slash on.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let path = text.parse::<Uri>().ok()?;
        let absolute = path.authority().is_none()
            && text.starts_with('/')
            && !text.starts_with("//")
            && !text.contains('#');
        let steps_back = path.path().split('/').any(|step| {
            let step = step.to_ascii_lowercase().replace("%2e", ".");
            step == "." || step == ".."
        });
        (absolute && !steps_back).then(|| Self(text.to_owned()))
    }
}

impl Setting for RequestPath {
    const RULE: &'static str = "must be a path like /v1/chat/completions";

    fn read(given: &Given) -> Option<Self> {
        Self::parse(given.text()?)
    }

    fn write(&self) -> String {
        quoted(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_appended_to_the_base() {
        let path = RequestPath::parse("/v1/chat/completions").unwrap();
        for (target, joined) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"),
            ("https://h/", "https://h/v1/chat/completions"),
            ("https://h/base/", "https://h/base/v1/chat/completions"),
            ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
        ] {
            let target = Target::parse(target).unwrap();
            assert_eq!(target.join(&path).unwrap().to_string(), joined);
        }
    }

    #[test]
    fn an_address_that_is_no_base_is_refused() {
        for text in [
            "",
            "127.0.0.1:8000",
            "h",
            "/v1",
            "ftp://h",
            "http://",
            "http://user:S3CRET@h",
            "http://h?key=S3CRET",
            "http://h/#f",
            "http://h/../x",
            "http://h:0",
            "http://h:99999",
            "http://h /",
        ] {
            assert!(Target::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_path_leads_nowhere_else() {
        assert!(RequestPath::parse("/v1/x?version=2").is_some());
        for text in
            ["", "v1", "//evil.example/x", "http://h/x", "/a/../b", "/a/%2E%2e/b", "/a b", "/a#b"]
        {
            assert!(RequestPath::parse(text).is_none(), "{text}");
        }
    }
}
