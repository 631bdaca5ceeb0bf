//! How a body is framed (RFC 9112, 6): in one way, which everybody reads alike.

use axum::http::HeaderMap;
use axum::http::header::TRANSFER_ENCODING;

/// Whether a request frames its body by its length or by chunks, and by nothing else. Whoever serves answers 400 where it
/// does not, and closes: of several codings two parties may undo different ones, and take the rest for the next request.
///
/// What contradicts itself, or ends with another coding, is refused before it comes here.
pub fn frames_its_body(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_body_is_in_chunks_once_or_not_at_all() {
        let is_taken = |codings: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(TRANSFER_ENCODING, HeaderValue::from_static(coding));
            }
            frames_its_body(&headers)
        };
        assert!(is_taken(&[]) && is_taken(&["chunked"]) && is_taken(&["Chunked"]));
        for codings in [
            &["chunked, chunked"][..],
            &["gzip, chunked"],
            &["chunked", "chunked"],
            &["gzip", "chunked"],
            &["identity"],
            &["chunked;q=1"],
            &[""],
        ] {
            assert!(!is_taken(codings), "{codings:?}");
        }
    }
}
