//! The files of a gateway: credential and TLS material, reread when they change.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use hyper::header::HeaderValue;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Where the files of a gateway lie, by the setting that names them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// `credential_file`: what is sent as a bearer token.
    pub(crate) credential: Option<PathBuf>,
    /// `ca_file`: trusted instead of the system's roots.
    pub(crate) ca: Option<PathBuf>,
    /// `client_cert_file` and `client_key_file`: how we show who we are.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// A file that can't be used. Neither its path nor its content is told, only its setting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// It can't be read.
    #[error("{setting}: can't be read: {kind}")]
    Unread {
        /// The setting that names it.
        setting: &'static str,
        /// What the system says.
        kind: io::ErrorKind,
    },
    /// It holds something else.
    #[error("{setting}: must hold {must}")]
    Content {
        /// The setting that names it.
        setting: &'static str,
        /// What it must hold.
        must: &'static str,
    },
    /// Nothing vouches for any server.
    #[error("no trusted certificates: the system has none, and there is no ca_file")]
    NoRoots,
    /// TLS can't be set up.
    #[error("tls can't be set up")]
    Tls,
}

/// What the files give.
pub(super) struct Material {
    /// The whole `Authorization` value.
    pub(super) authorization: Option<HeaderValue>,
    /// For the next handshake.
    pub(super) tls: Arc<ClientConfig>,
}

/// The files as read, to tell a change.
#[derive(Clone, Default, PartialEq, Eq)]
struct Raw {
    credential: Option<Vec<u8>>,
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

/// The files of one gateway and what they give.
pub(super) struct Secrets {
    files: Files,
    roots: RootCertStore,
    alpn: Vec<Vec<u8>>,
    current: Mutex<(Raw, Arc<Material>)>,
}

impl Secrets {
    /// Reads the files. `tls`: whether the target is reached by TLS, so that roots are needed.
    pub(super) fn open(files: Files, tls: bool, alpn: Vec<Vec<u8>>) -> Result<Self, FileError> {
        let mut roots = RootCertStore::empty();
        if tls && files.ca.is_none() {
            let native = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(native.certs);
            if roots.is_empty() {
                return Err(FileError::NoRoots);
            }
        }
        let raw = files.read()?;
        let material = Arc::new(raw.material(roots.clone(), alpn.clone())?);
        Ok(Self { files, roots, alpn, current: Mutex::new((raw, material)) })
    }

    /// What the files gave when they last made sense.
    pub(super) fn current(&self) -> Arc<Material> {
        Arc::clone(&self.lock().1)
    }

    /// Reads the files again; true if something changed. Blocks on the file system.
    ///
    /// On an error what was read before stays in use: a certificate and its key are replaced one
    /// after the other, and do not fit for a moment.
    pub(super) fn reread(&self) -> Result<bool, FileError> {
        let raw = self.files.read()?;
        if raw == self.lock().0 {
            return Ok(false);
        }
        let material = Arc::new(raw.material(self.roots.clone(), self.alpn.clone())?);
        *self.lock() = (raw, material);
        Ok(true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Raw, Arc<Material>)> {
        // Whole in any case: it is only ever replaced in one step.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn read(&self) -> Result<Raw, FileError> {
        let read = |setting, path: &PathBuf| {
            fs::read(path).map_err(|err| FileError::Unread { setting, kind: err.kind() })
        };
        let credential = self.credential.as_ref().map(|path| read("credential_file", path));
        let ca = self.ca.as_ref().map(|path| read("ca_file", path));
        let client = self.client.as_ref().map(|(cert, key)| {
            Ok((read("client_cert_file", cert)?, read("client_key_file", key)?))
        });
        Ok(Raw {
            credential: credential.transpose()?,
            ca: ca.transpose()?,
            client: client.transpose()?,
        })
    }
}

impl Raw {
    fn material(&self, roots: RootCertStore, alpn: Vec<Vec<u8>>) -> Result<Material, FileError> {
        let authorization = self.credential.as_deref().map(bearer).transpose()?;
        let tls = Arc::new(self.tls(roots, alpn)?);
        Ok(Material { authorization, tls })
    }

    fn tls(&self, mut roots: RootCertStore, alpn: Vec<Vec<u8>>) -> Result<ClientConfig, FileError> {
        if let Some(ca) = &self.ca {
            for cert in certificates("ca_file", ca)? {
                let must = "certificates that can be trusted";
                roots.add(cert).map_err(|_| FileError::Content { setting: "ca_file", must })?;
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| FileError::Tls)?
            .with_root_certificates(roots);
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let setting = "client_key_file";
                let certs = certificates("client_cert_file", cert)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| FileError::Content { setting, must: "a private key in PEM" })?;
                let must = "the key of client_cert_file";
                builder
                    .with_client_auth_cert(certs, key)
                    .map_err(|_| FileError::Content { setting, must })?
            }
        };
        config.alpn_protocols = alpn;
        Ok(config)
    }
}

/// The certificates of a PEM file, one at least.
fn certificates(
    setting: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certs {
        Ok(certs) if !certs.is_empty() => Ok(certs),
        _ => Err(FileError::Content { setting, must: "certificates in PEM" }),
    }
}

/// The header of a bearer token; white space around it is not part of it.
fn bearer(file: &[u8]) -> Result<HeaderValue, FileError> {
    let content = FileError::Content { setting: "credential_file", must: "one bearer token" };
    let token = file.trim_ascii();
    if token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        return Err(content);
    }
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).map_err(|_| content)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &tempfile::TempDir, name: &str, content: &str) -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn token(secrets: &Secrets) -> String {
        let authorization = secrets.current().authorization.clone().unwrap();
        authorization.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_credential_is_reread_when_it_changes_and_kept_while_its_file_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(&dir, "token", "one\n");
        let files = Files { credential: Some(path.clone()), ..Files::default() };
        let secrets = Secrets::open(files, false, Vec::new()).unwrap();
        assert_eq!(token(&secrets), "Bearer one");
        assert!(!secrets.reread().unwrap(), "nothing changed");

        fs::write(&path, "two").unwrap();
        assert!(secrets.reread().unwrap());
        assert_eq!(token(&secrets), "Bearer two");

        for broken in ["", "  \n", "two words", "new\nline", "é"] {
            fs::write(&path, broken).unwrap();
            assert!(secrets.reread().is_err(), "{broken:?}");
            assert_eq!(token(&secrets), "Bearer two");
        }
        fs::remove_file(&path).unwrap();
        assert!(secrets.reread().is_err());
        assert_eq!(token(&secrets), "Bearer two");
    }

    #[test]
    fn an_unusable_file_is_named_by_its_setting_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let marked = write(&dir, "S3CRET", "S3CRET no pem");
        let files = Files { ca: Some(marked.clone()), ..Files::default() };
        let ca = Secrets::open(files, false, Vec::new()).err().unwrap().to_string();
        assert_eq!(ca, "ca_file: must hold certificates in PEM");

        let files = Files { client: Some((marked.clone(), marked)), ..Files::default() };
        let client = Secrets::open(files, false, Vec::new()).err().unwrap().to_string();
        assert_eq!(client, "client_cert_file: must hold certificates in PEM");

        let files = Files { credential: Some(dir.path().join("S3CRET2")), ..Files::default() };
        let missing = Secrets::open(files, false, Vec::new()).err().unwrap().to_string();
        assert_eq!(missing, "credential_file: can't be read: entity not found");
    }
}
