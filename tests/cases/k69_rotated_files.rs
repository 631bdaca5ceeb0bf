//! K69: certificates, keys and credentials change while a worker runs, as Kubernetes changes them.
//!
//! A CA or a client certificate that is read once at the start makes every handshake fail after a rotation, until
//! somebody restarts the process.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_testkit::eventually;
use serde_json::Value;
use tempfile::TempDir;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass};
use crate::stage;
use crate::tls_gateway::{Identity, TlsGateway};

macro_rules! pem {
    ($name:literal) => {
        include_str!(concat!("../../crates/worker/src/gateway/tests/pem/", $name))
    };
}

/// The first generation of files, and a gateway of it.
const OLD: Files = Files {
    ca: pem!("ca.pem"),
    cert: pem!("client.pem"),
    key: pem!("client.key"),
    token: "old-t0ken\n",
};
const OLD_GATEWAY: Identity =
    Identity { cert: pem!("server.pem"), key: pem!("server.key"), clients: pem!("ca.pem") };
const EXPIRED_GATEWAY: Identity = Identity { cert: pem!("expired.pem"), ..OLD_GATEWAY };

/// The next generation: another CA has signed everything.
const NEW: Files = Files {
    ca: include_str!("pem/next-ca.pem"),
    cert: include_str!("pem/next-client.pem"),
    key: include_str!("pem/next-client.key"),
    token: "new-t0ken\n",
};
const NEW_GATEWAY: Identity = Identity {
    cert: include_str!("pem/next-server.pem"),
    key: include_str!("pem/next-server.key"),
    clients: include_str!("pem/next-ca.pem"),
};

/// Within which new files are in use, as the docs say.
const A_MINUTE: Duration = Duration::from_secs(60);

/// What a mounted Secret holds.
#[derive(Clone, Copy)]
struct Files {
    ca: &'static str,
    cert: &'static str,
    key: &'static str,
    token: &'static str,
}

/// A folder as Kubernetes mounts a Secret: files that lead through one link, and the link is swapped.
struct Mount(TempDir);

impl Mount {
    const NAMES: [&'static str; 4] = ["ca.pem", "client.pem", "client.key", "token"];

    fn new(files: Files) -> Self {
        let mount = Self(tempfile::tempdir().expect("a folder"));
        mount.swap("first", files);
        for name in Self::NAMES {
            symlink(Path::new("..data").join(name), mount.0.path().join(name)).expect("a link");
        }
        mount
    }

    /// Lets the link lead to other files, in one step.
    fn swap(&self, name: &str, files: Files) {
        let folder = self.0.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        for (name, text) in Self::NAMES.iter().zip([files.ca, files.cert, files.key, files.token]) {
            fs::write(folder.join(name), text).expect("a file");
        }
        let next = self.0.path().join("..next");
        symlink(name, &next).expect("a link");
        fs::rename(next, self.0.path().join("..data")).expect("the link is swapped");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A fleet whose queue `tls` goes to that gateway, by those files.
async fn fleet(gateway: &TlsGateway, mount: &Mount) -> (Fleet, Role) {
    let line = |field: &str, name: &str| format!("{field} = \"{}\"\n", mount.file(name).display());
    let more = format!(
        "[queues.tls]\ntarget = \"https://{}\"\n{}{}{}{}",
        gateway.address,
        line("ca_file", "ca.pem"),
        line("client_cert_file", "client.pem"),
        line("client_key_file", "client.key"),
        line("credential_file", "token"),
    );
    let fleet = stage::fleet(Setup { more, ..Setup::default() }).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    (fleet, worker)
}

async fn submit(fleet: &Fleet, id: &str) {
    let item = format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{{}}}}");
    let answer = fleet.call("POST", "/v1/queues/tls/requests", item.as_bytes()).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

async fn status(fleet: &Fleet, id: &str) -> Value {
    let answer = fleet.call("GET", &format!("/v1/queues/tls/requests/{id}"), b"").await;
    serde_json::from_slice(&answer.body).expect("a status")
}

async fn is_answered(fleet: &Fleet, id: &str, within: Duration) {
    eventually(&format!("{id} is answered"), within, async || {
        let status = status(fleet, id).await;
        if status["outcome"] == "answered" { Ok(()) } else { Err(status) }
    })
    .await;
}

/// It was tried, failed for want of a handshake, and is kept to be tried again.
async fn waits_for_a_handshake(fleet: &Fleet, id: &str) {
    eventually(&format!("{id} names tls"), A_MINUTE, async || {
        let status = status(fleet, id).await;
        assert_eq!(status["outcome"], Value::Null, "no end: {status}");
        if status["last_failure"]["code"] == "tls" { Ok(()) } else { Err(status) }
    })
    .await;
}

async fn stale(fleet: &Fleet, worker: &Role, wanted: f64) {
    eventually("the metric tells of unusable files", A_MINUTE, async || {
        let told = fleet.metric(worker, "holdfast_gate_stale_files", "tls").await;
        if told == wanted { Ok(()) } else { Err(told) }
    })
    .await;
}

/// A gateway that shows an expired certificate: its requests wait, and end well when it has a good one.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_ends_no_request() {
    let _shared = beside_others().await;
    let (gateway, mount) = (TlsGateway::start(EXPIRED_GATEWAY), Mount::new(OLD));
    let (fleet, worker) = fleet(&gateway, &mount).await;
    for id in ["one", "two"] {
        submit(&fleet, id).await;
        waits_for_a_handshake(&fleet, id).await;
    }
    assert!(gateway.heads().is_empty());
    gateway.becomes(OLD_GATEWAY);
    for id in ["one", "two"] {
        is_answered(&fleet, id, A_MINUTE).await;
    }
    crate::aftermath::nobody_panicked(&fleet, &[&worker]);
}

/// Everything is signed anew: first the gateway changes, then the files, at first with a key that does not fit.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_swapped_are_in_use_within_a_minute() {
    let _shared = beside_others().await;
    let (gateway, mount) = (TlsGateway::start(OLD_GATEWAY), Mount::new(OLD));
    let (fleet, worker) = fleet(&gateway, &mount).await;
    submit(&fleet, "before").await;
    is_answered(&fleet, "before", A_MINUTE).await;
    assert!(gateway.heads()[0].contains("authorization: bearer old-t0ken\r\n"));

    // Out of step, the old files stay, and it is said loudly.
    mount.swap("torn", Files { key: OLD.key, ..NEW });
    stale(&fleet, &worker, 1.0).await;
    submit(&fleet, "torn").await;
    is_answered(&fleet, "torn", A_MINUTE).await;
    let told = "client_key_file must hold the key of client_cert_file";
    worker.process.wait_for_line(|line| line.contains(told), SOON).await;

    gateway.becomes(NEW_GATEWAY);
    submit(&fleet, "rotated").await;
    waits_for_a_handshake(&fleet, "rotated").await;
    assert!(gateway.failed() >= 1);
    mount.swap("whole", NEW);
    is_answered(&fleet, "rotated", A_MINUTE).await;
    stale(&fleet, &worker, 0.0).await;
    let heads = gateway.heads();
    assert_eq!(heads.len(), 3, "one call each");
    assert!(heads[2].contains("authorization: bearer new-t0ken\r\n"));

    // What is secret stands in no log, and neither does where it lies.
    pass(Duration::from_secs(1)).await;
    let output = worker.process.output();
    let folder = mount.0.path().display().to_string();
    for secret in ["t0ken", "PRIVATE KEY", folder.as_str()] {
        assert!(!output.contains(secret), "{secret} is told");
    }
    crate::aftermath::nobody_panicked(&fleet, &[&worker]);
}
