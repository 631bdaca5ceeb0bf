//! What a target is shown: a bearer token, certificates to trust, a certificate of our own. Read from files, and read again when they change.

use std::path::PathBuf;
use std::sync::Arc;

use hyper::header::HeaderValue;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::reread::{Reread, Unusable};
use crate::settings::Credentials;

const CREDENTIAL: &str = "credential_file";
const CA: &str = "ca_file";
const CERTIFICATE: &str = "client_cert_file";
const KEY: &str = "client_key_file";

/// What the files give.
pub struct Material {
    /// The whole `Authorization` value.
    pub authorization: Option<HeaderValue>,
    /// For the next handshake.
    pub tls: Arc<ClientConfig>,
}

/// Reads the files for the first time. Servers are trusted by `roots` and by `ca_file`; `alpn`: the protocols that are
/// offered. On an error while they are read again, what was read before stays in use: a certificate and its key are
/// replaced one after the other, and do not fit for a moment.
pub fn open(
    credentials: &Credentials,
    roots: RootCertStore,
    alpn: Vec<Vec<u8>>,
) -> Result<Reread<Material>, Unusable> {
    let files = files(credentials);
    let settings: Vec<&str> = files.iter().map(|(setting, _)| *setting).collect();
    Reread::open(files, move |contents| {
        let read = Read { settings: &settings, contents };
        let authorization = read.file(CREDENTIAL).map(bearer).transpose()?;
        Ok(Material { authorization, tls: Arc::new(read.tls(roots.clone(), alpn.clone())?) })
    })
}

/// Whether every file can be used, without keeping anything of it.
pub(crate) fn check(credentials: &Credentials) -> Result<(), Unusable> {
    open(credentials, RootCertStore::empty(), Vec::new()).map(drop)
}

/// The files, each by the setting that names it.
pub(crate) fn files(credentials: &Credentials) -> Vec<(&'static str, PathBuf)> {
    let Credentials { credential_file, ca_file, client_cert_file, client_key_file } = credentials;
    let credential = credential_file.as_ref().map(|file| file.path().to_owned());
    let all = [
        (CREDENTIAL, credential),
        (CA, ca_file.clone()),
        (CERTIFICATE, client_cert_file.clone()),
        (KEY, client_key_file.clone()),
    ];
    all.into_iter().filter_map(|(setting, path)| Some((setting, path?))).collect()
}

/// The contents of the files, each by its setting.
struct Read<'a> {
    settings: &'a [&'static str],
    contents: &'a [Vec<u8>],
}

impl Read<'_> {
    fn file(&self, setting: &str) -> Option<&[u8]> {
        let at = self.settings.iter().position(|it| *it == setting)?;
        self.contents.get(at).map(Vec::as_slice)
    }

    fn tls(&self, mut roots: RootCertStore, alpn: Vec<Vec<u8>>) -> Result<ClientConfig, Unusable> {
        if let Some(pem) = self.file(CA) {
            trust(&mut roots, CA, pem)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| Unusable::new(CA, "can't be used: tls can't be set up"))?
            .with_root_certificates(roots);
        let mut config = match (self.file(CERTIFICATE), self.file(KEY)) {
            (Some(certificate), Some(key)) => {
                let certificates = certificates(CERTIFICATE, certificate)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| must(KEY, "a private key in PEM"))?;
                builder
                    .with_client_auth_cert(certificates, key)
                    .map_err(|_| must(KEY, "the key of client_cert_file"))?
            }
            // One without the other is refused by the settings.
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn;
        Ok(config)
    }
}

fn must(setting: &'static str, held: &str) -> Unusable {
    Unusable::new(setting, format!("must hold {held}"))
}

/// Adds the certificates of a PEM file to those that are trusted.
pub(crate) fn trust(
    roots: &mut RootCertStore,
    setting: &'static str,
    pem: &[u8],
) -> Result<(), Unusable> {
    for certificate in certificates(setting, pem)? {
        let added = roots.add(certificate);
        added.map_err(|_| must(setting, "certificates that can be trusted"))?;
    }
    Ok(())
}

/// The certificates of a PEM file, one at least.
fn certificates(
    setting: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.ok().filter(|all| !all.is_empty());
    certificates.ok_or_else(|| must(setting, "certificates in PEM"))
}

/// The header of a bearer token; white space around it is not part of it.
fn bearer(file: &[u8]) -> Result<HeaderValue, Unusable> {
    let unusable = || must(CREDENTIAL, "one bearer token");
    let token = file.trim_ascii();
    if token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        return Err(unusable());
    }
    let value = HeaderValue::from_bytes(&[b"Bearer ", token].concat());
    let mut value = value.map_err(|_| unusable())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::settings::SecretFile;

    fn write(dir: &tempfile::TempDir, name: &str, content: &str) -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn token(material: &Reread<Material>) -> String {
        let authorization = material.current().authorization.clone().unwrap();
        authorization.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_credential_is_reread_when_it_changes_and_kept_while_its_file_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(&dir, "token", "one\n");
        let credentials =
            Credentials { credential_file: Some(SecretFile::new(&path)), ..Credentials::default() };
        let material = open(&credentials, RootCertStore::empty(), Vec::new()).unwrap();
        assert_eq!(token(&material), "Bearer one");
        assert!(!material.look().unwrap(), "nothing changed");

        fs::write(&path, "two").unwrap();
        assert!(material.look().unwrap());
        assert_eq!(token(&material), "Bearer two");

        for broken in ["", "  \n", "two words", "new\nline", "é"] {
            fs::write(&path, broken).unwrap();
            assert!(material.look().is_err(), "{broken:?}");
            assert_eq!(token(&material), "Bearer two");
        }
        fs::remove_file(&path).unwrap();
        assert!(material.look().is_err());
        assert_eq!(token(&material), "Bearer two");
    }

    #[test]
    fn an_unusable_file_is_named_by_its_setting_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let marked = write(&dir, "S3CRET", "S3CRET no pem");
        let told = |credentials: Credentials| check(&credentials).unwrap_err().to_string();

        let ca = told(Credentials { ca_file: Some(marked.clone()), ..Credentials::default() });
        assert_eq!(ca, "ca_file must hold certificates in PEM");

        let client = told(Credentials {
            client_cert_file: Some(marked.clone()),
            client_key_file: Some(marked),
            ..Credentials::default()
        });
        assert_eq!(client, "client_cert_file must hold certificates in PEM");

        let missing = Some(SecretFile::new(dir.path().join("S3CRET2")));
        let missing = told(Credentials { credential_file: missing, ..Credentials::default() });
        assert_eq!(missing, "credential_file can't be read: no such file");
    }
}
