//! A gateway behind TLS, whose certificate and whose idea of its clients can change.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// What a gateway shows of itself, and whom it lets in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Its certificate.
    pub(crate) cert: &'static str,
    /// The key of it.
    pub(crate) key: &'static str,
    /// Who vouches for its clients.
    pub(crate) clients: &'static str,
}

/// A gateway on loopback that answers one call a connection, so that each call is a handshake.
pub(crate) struct TlsGateway {
    /// Where it is.
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    config: Mutex<Arc<ServerConfig>>,
    /// The heads of the calls that were answered.
    heads: Mutex<Vec<String>>,
    /// Connections that came to nothing.
    failed: Mutex<usize>,
}

impl TlsGateway {
    /// Starts one, for as long as the process lives.
    pub(crate) fn start(identity: Identity) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (heads, failed) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { config: Mutex::new(config(identity)), heads, failed });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&accepting);
                thread::spawn(move || shared.serve(stream.expect("a connection")));
            }
        });
        Self { address, shared }
    }

    /// Shows this from the next connection on.
    pub(crate) fn becomes(&self, identity: Identity) {
        *lock(&self.shared.config) = config(identity);
    }

    /// The heads of the calls that it answered, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        lock(&self.shared.heads).clone()
    }

    /// Connections that ended without a call.
    pub(crate) fn failed(&self) -> usize {
        *lock(&self.shared.failed)
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        let config = Arc::clone(&lock(&self.config));
        let tls = ServerConnection::new(config).expect("a session");
        let mut stream = StreamOwned::new(tls, stream);
        let Some(head) = head(&mut stream) else {
            *lock(&self.failed) += 1;
            return;
        };
        lock(&self.heads).push(head);
        // The other side may be gone.
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        );
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}

/// Reads a call to the end of its body, `{}`: its head.
fn head(stream: &mut impl Read) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n{}") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => read.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&read).to_ascii_lowercase())
}

fn config(identity: Identity) -> Arc<ServerConfig> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate(identity.clients)).expect("a root");
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let builder = builder.with_client_cert_verifier(verifier.build().expect("a verifier"));
    let config = builder.with_single_cert(vec![certificate(identity.cert)], key);
    Arc::new(config.expect("a certificate and its key"))
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

/// Whole after any panic: every change is one assignment or one push.
fn lock<T: ?Sized>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
