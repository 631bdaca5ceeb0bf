//! TLS of a listener: a certificate and its key, read again when they change.
//!
//! A connection keeps what it began with; the next one gets what the files hold now. HTTP/1.1 is all that is agreed on, for the
//! reasons that `connection` gives.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error as TlsError, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::reread::{Reread, Unusable};

const CERTIFICATE: &str = "tls_cert_file";
const KEY: &str = "tls_key_file";

/// The certificate of a listener, as it is now. Clones are the same value.
#[derive(Clone)]
pub struct Tls(Arc<Reread<Arc<ServerConfig>>>);

impl Tls {
    /// Reads both files. `tls_cert_file` holds the certificate and those above it, `tls_key_file` its
    /// private key, both in PEM.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, Unusable> {
        Reread::open(Self::named(certificate, key).to_vec(), config).map(Arc::new).map(Self)
    }

    /// The files by the settings that name them.
    pub(crate) fn named(certificate: &Path, key: &Path) -> [(&'static str, PathBuf); 2] {
        [(CERTIFICATE, certificate.to_owned()), (KEY, key.to_owned())]
    }

    /// The files, for whoever watches them.
    pub fn files(&self) -> Arc<Reread<Arc<ServerConfig>>> {
        Arc::clone(&self.0)
    }

    /// Agrees with a peer on a session, within a time.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: S,
        allowed: Duration,
    ) -> io::Result<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(Arc::clone(&*self.0.current()));
        timeout(allowed, acceptor.accept(socket)).await?
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn config(contents: &[Vec<u8>]) -> Result<Arc<ServerConfig>, Unusable> {
    let [certificate, key] = contents else { return Err(Unusable::new(KEY, "is missing")) };
    let must = |setting, held: &str| Unusable::new(setting, format!("must hold {held}"));
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let certificates = certificates.ok().filter(|all| !all.is_empty());
    let certificates = certificates.ok_or_else(|| must(CERTIFICATE, "certificates in PEM"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| must(KEY, "a private key in PEM"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| Unusable::new(CERTIFICATE, "can't be used: tls can't be set up"))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|err| match err {
            TlsError::InconsistentKeys(_) => must(KEY, "the key of tls_cert_file"),
            TlsError::InvalidCertificate(_) => must(CERTIFICATE, "certificates that can be read"),
            _ => must(KEY, "a private key that can be used"),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
