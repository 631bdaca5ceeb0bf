//! The same over TLS: what is agreed on, who is too slow, and files that change.

use std::fs;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

const CA: &str = include_str!("pem/ca.pem");
const ONE: (&str, &str) = (include_str!("pem/one.pem"), include_str!("pem/one.key"));
const TWO: (&str, &str) = (include_str!("pem/two.pem"), include_str!("pem/two.key"));

/// A certificate and its key, in files that a test can change.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write(ONE);
        files
    }

    fn write(&self, (certificate, key): (&str, &str)) {
        fs::write(self.0.path().join("cert"), certificate).unwrap();
        fs::write(self.0.path().join("key"), key).unwrap();
    }

    fn open(&self) -> Result<Tls, crate::reread::Unusable> {
        Tls::open(&self.0.path().join("cert"), &self.0.path().join("key"))
    }

    async fn served(&self) -> (Tls, Served) {
        let tls = self.open().unwrap();
        let served = Served::with(Some(tls.clone()), LIMITS, PATIENCE).await;
        (tls, served)
    }
}

async fn connect(served: &Served, offers: &[&str]) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CA.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offers.iter().map(|offer| offer.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let socket = served.connect().await;
    timeout(PATIENCE, TlsConnector::from(Arc::new(config)).connect(name, socket)).await.unwrap()
}

/// Makes a call on a connection, and says whose certificate it shows.
async fn quick(session: &mut TlsStream<TcpStream>) -> CertificateDer<'static> {
    session.write_all(QUICK.as_bytes()).await.unwrap();
    wait_for(session, "quick").await;
    session.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[tokio::test]
async fn nothing_but_http_1_is_agreed_on() {
    let (_, served) = Files::new().served().await;
    for offers in [&[][..], &["http/1.1"], &["h2", "http/1.1"]] {
        let mut session = connect(&served, offers).await.unwrap();
        let agreed = session.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed, (!offers.is_empty()).then(|| b"http/1.1".to_vec()));
        assert_eq!(quick(&mut session).await, certificate(ONE.0));
    }
    assert!(connect(&served, &["h2"]).await.is_err());
    let mut plain = served.sent(QUICK).await;
    assert!(!rest(&mut plain).await.contains("quick"), "no answer without TLS");
}

#[tokio::test]
async fn a_handshake_that_does_not_get_on_is_closed_however_it_trickles() {
    let (_, served) = Files::new().served().await;
    assert_eq!(rest(&mut served.connect().await).await, "");
    // The first bytes of a hello that is said to be long.
    let mut socket = served.connect().await;
    socket.write_all(&[22, 3, 1, 64, 0, 1, 0, 63, 252, 3, 3]).await.unwrap();
    let trickled = timeout(PATIENCE, async {
        while socket.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    trickled.await.expect("the server closes");
}

#[tokio::test]
async fn a_peer_that_reads_nothing_does_not_keep_its_connection() {
    let (_, served) = Files::new().served().await;
    let mut session = connect(&served, &[]).await.unwrap();
    session.write_all(b"GET /endless HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    timeout(PATIENCE, served.given_up.cancelled()).await.expect("it is given up");
}

#[tokio::test]
async fn an_idle_session_is_closed_and_holds_up_no_stop() {
    let (_, served) = Files::new().served().await;
    let mut session = connect(&served, &[]).await.unwrap();
    quick(&mut session).await;
    assert_eq!(rest(&mut session).await, "");
    let mut session = connect(&served, &[]).await.unwrap();
    quick(&mut session).await;
    // One that has not even said hello is no reason to wait either.
    let _silent = served.connect().await;
    served.stop.cancel();
    served.ended().await;
}

#[tokio::test]
async fn new_files_are_for_new_connections_and_a_bad_pair_changes_nothing() {
    let files = Files::new();
    let (tls, served) = files.served().await;
    let mut old = connect(&served, &[]).await.unwrap();
    assert_eq!(quick(&mut old).await, certificate(ONE.0));

    for (pair, told) in [
        ((TWO.0, ONE.1), "tls_key_file must hold the key of tls_cert_file"),
        (("S3CRET", TWO.1), "tls_cert_file must hold certificates in PEM"),
        ((TWO.0, "S3CRET"), "tls_key_file must hold a private key in PEM"),
        ((TWO.0, TWO.0), "tls_key_file must hold a private key in PEM"),
    ] {
        files.write(pair);
        assert_eq!(tls.files().look().unwrap_err().to_string(), told);
        assert_eq!(files.open().unwrap_err().to_string(), told, "at the start as well");
        let mut new = connect(&served, &[]).await.unwrap();
        assert_eq!(quick(&mut new).await, certificate(ONE.0), "{told}");
    }
    files.write(TWO);
    assert_eq!(tls.files().look(), Ok(true));
    let mut new = connect(&served, &[]).await.unwrap();
    assert_eq!(quick(&mut new).await, certificate(TWO.0));
}

#[tokio::test]
async fn a_session_goes_on_when_its_certificate_is_replaced() {
    let files = Files::new();
    let (tls, served) = files.served().await;
    let mut held = connect(&served, &[]).await.unwrap();
    held.write_all(HELD.as_bytes()).await.unwrap();
    served.begun.notified().await;
    files.write(TWO);
    assert_eq!(tls.files().look(), Ok(true));
    served.release.notify_one();
    wait_for(&mut held, "held").await;
    assert_eq!(quick(&mut held).await, certificate(ONE.0), "one session, one certificate");
}
