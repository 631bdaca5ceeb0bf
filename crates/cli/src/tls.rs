//! TLS towards the API.

use std::sync::Arc;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};

use crate::failure::Failure;

/// Opens connections to `server`: with TLS where its address starts with https, else without.
///
/// The system's certificates are trusted, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
pub(crate) fn connector(
    mut tcp: HttpConnector,
    server: &str,
) -> Result<HttpsConnector<HttpConnector>, Failure> {
    let unusable = |rule: &str| Failure::Input { place: "tls".to_owned(), rule: rule.to_owned() };
    let mut roots = RootCertStore::empty();
    if server.starts_with("https:") {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(unusable(
                "no trusted certificates: the system has none, and SSL_CERT_FILE names none",
            ));
        }
    }
    // The scheme is the business of the layer above.
    tcp.enforce_http(false);
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable("can't be set up"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(HttpsConnector::from((tcp, config)))
}
