//! Which host a request is for (RFC 9112, 3.2): said once, and never left out in HTTP/1.1.

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Version};

/// Whether a request says its host as it must. Whoever serves answers 400 where it does not: two parties that
/// read another host out of one request can be played against each other.
pub fn names_its_host(version: Version, headers: &HeaderMap) -> bool {
    let mut named = headers.get_all(HOST).into_iter();
    match (named.next(), named.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(only), None) => is_host(only),
        (Some(_), Some(_)) => false,
    }
}

/// A host and perhaps a port; empty, where the target has none.
fn is_host(value: &HeaderValue) -> bool {
    let text = value.as_bytes();
    text.is_empty() || (!text.contains(&b'@') && Authority::try_from(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(version: Version, hosts: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_static(host));
        }
        names_its_host(version, &headers)
    }

    #[test]
    fn a_host_is_said_once_and_only_http_1_0_may_leave_it_out() {
        assert!(is_taken(Version::HTTP_11, &["a"]));
        assert!(!is_taken(Version::HTTP_11, &[]));
        assert!(is_taken(Version::HTTP_10, &[]));
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(!is_taken(version, &["a", "a"]) && !is_taken(version, &["a", "b"]));
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for host in ["", "a", "a.b:80", "a_b:8080", "127.0.0.1", "[::1]:8080", "A-b."] {
            assert!(is_taken(Version::HTTP_11, &[host]), "{host}");
        }
        for host in ["a b", "a/b", "u@a", "a,b c", "[::1"] {
            assert!(!is_taken(Version::HTTP_11, &[host]), "{host}");
        }
    }
}
