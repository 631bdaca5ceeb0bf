//! TLS: who is trusted, what fails how, and files that change.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::*;

const CA: &str = include_str!("pem/ca.pem");
const OTHER_CA: &str = include_str!("pem/other-ca.pem");
const SERVER: &str = include_str!("pem/server.pem");
const EXPIRED: &str = include_str!("pem/expired.pem");
const SERVER_KEY: &str = include_str!("pem/server.key");
const CLIENT: &str = include_str!("pem/client.pem");
const CLIENT_KEY: &str = include_str!("pem/client.key");

fn server_config(cert: &str, ask_who: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CA.as_bytes()).unwrap()).unwrap();
    let builder = if ask_who {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let certs = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY.as_bytes()).unwrap();
    Arc::new(builder.with_single_cert(certs, key).unwrap())
}

/// Serves one request on each of the next `count` connections.
fn serve(config: Arc<ServerConfig>, count: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(count) {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(tls, stream.unwrap());
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n{}") {
                let mut byte = [0];
                match stream.read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    _ => break,
                }
            }
            if head.ends_with(b"{}") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n").unwrap();
                stream.write_all(b"Connection: close\r\n\r\n{}").unwrap();
            }
        }
    });
    addr
}

fn file(dir: &Path, name: &str, pem: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, pem).unwrap();
    path
}

fn over_tls(addr: SocketAddr, credentials: Credentials) -> Gateway {
    let base = format!("https://{addr}").parse().unwrap();
    Gateway::open(Target { base, credentials, ..target(addr) }).unwrap()
}

#[tokio::test]
async fn a_private_ca_is_trusted_by_its_file_and_rotates_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let ca = file(dir.path(), "ca.pem", OTHER_CA);
    let gateway = over_tls(
        serve(server_config(SERVER, false), 2),
        Credentials { ca_file: Some(ca.clone()), ..Credentials::default() },
    );
    assert_eq!(gateway.ask().await, Err(Fault::Tls), "signed by nobody we trust");

    std::fs::write(&ca, [OTHER_CA, CA].concat()).unwrap();
    assert!(gateway.reread().unwrap());
    assert_eq!(whole(gateway.ask().await).status, 200);
}

#[tokio::test]
async fn an_expired_certificate_is_a_fault_named_tls() {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = Some(file(dir.path(), "ca.pem", CA));
    let credentials = Credentials { ca_file, ..Credentials::default() };
    let gateway = over_tls(serve(server_config(EXPIRED, false), 1), credentials);
    assert_eq!(gateway.ask().await, Err(Fault::Tls));
}

#[tokio::test]
async fn a_gateway_that_asks_who_we_are_is_shown_the_client_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = Some(file(dir.path(), "ca.pem", CA));
    let cert = file(dir.path(), "client.pem", CLIENT);
    let key = file(dir.path(), "client.key", CLIENT_KEY);
    let addr = serve(server_config(SERVER, true), 2);

    let nobody = over_tls(addr, Credentials { ca_file: ca_file.clone(), ..Credentials::default() })
        .ask()
        .await;
    assert!(nobody.is_err(), "{nobody:?}");

    let credentials = Credentials {
        ca_file,
        client_cert_file: Some(cert),
        client_key_file: Some(key.clone()),
        ..Credentials::default()
    };
    let known = over_tls(addr, credentials);
    assert_eq!(whole(known.ask().await).status, 200);

    // Replaced one after the other, certificate and key do not fit for a moment.
    std::fs::write(&key, SERVER_KEY).unwrap();
    let told = known.reread().unwrap_err().to_string();
    assert_eq!(told, "client_key_file must hold the key of client_cert_file");
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_a_connect_time_out() {
    let server = RawGateway::start(Reading::Not, vec![vec![Step::Hold]]).await;
    let base = format!("https://{}", server.addr).parse().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ca_file = Some(file(dir.path(), "ca.pem", CA));
    let connect_timeout = Duration::from_millis(300);
    let credentials = Credentials { ca_file, ..Credentials::default() };
    let target = Target { base, connect_timeout, credentials, ..target(server.addr) };
    let (gateway, sent) = (Gateway::open(target).unwrap(), Sent::default());
    let late = gateway.send(gateway.call(b"{}"), sent.clone()).await;
    assert_eq!((late, sent.get()), (Err(Fault::ConnectTimeout), false));
}

#[tokio::test]
async fn a_server_without_tls_is_a_fault_named_tls() {
    let server = RawGateway::start(
        Reading::Not,
        vec![vec![Step::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), Step::Close]],
    )
    .await;
    let dir = tempfile::tempdir().unwrap();
    let ca_file = Some(file(dir.path(), "ca.pem", CA));
    let gateway = over_tls(server.addr, Credentials { ca_file, ..Credentials::default() });
    assert_eq!(gateway.ask().await, Err(Fault::Tls));
}
