//! TLS of the API with real processes: the tool speaks it, and a certificate is replaced while it is in use.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_testkit::{Process, RedisServer, eventually, free_port};

use crate::cli::{Ran, arg, command, ctl, ended};
use crate::fleet::{Fleet, SOON, Setup};

/// Two certificates of one authority, and the key of each.
fn pem(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/runtime/src/serve/tests/pem"))
        .join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_submits_over_tls_while_the_certificate_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let [certificate, key] = ["cert", "key"].map(|name| folder.path().join(name));
    let place = |pair: &str| {
        fs::copy(pem(&format!("{pair}.pem")), &certificate).expect("a certificate");
        fs::copy(pem(&format!("{pair}.key")), &key).expect("a key");
    };
    place("one");
    let producer = format!(
        "tls_cert_file = \"{}\"\ntls_key_file = \"{}\"",
        certificate.display(),
        key.display()
    );
    let setup = Setup { producer, ..Setup::default() };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let role = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    fleet.ready(role.ops).await;

    let server = fleet.api("").replacen("http:", "https:", 1);
    let body = folder.path().join("body.json");
    fs::write(&body, "{}").expect("a body");
    let submit = async |trusted: &Path, id: &str| -> Ran {
        let arguments = ["submit", arg(&body), "--id", id, "--server", &server, "--queue", "q"];
        let mut command = command(&[&arguments[..], &["--patience", "0s"]].concat());
        command.env("SSL_CERT_FILE", trusted);
        ended(command).await
    };
    submit(&pem("ca.pem"), "a").await.exited(0);
    let stranger = submit(&pem("two.pem"), "b").await.exited(1);
    assert!(stranger.stderr.contains("certificate"), "{}", stranger.stderr);

    let stale = async |wanted: f64| {
        eventually("the metric tells it", SOON, async || {
            let label = "file=\"tls_cert_file\"";
            match fleet.metric(&role, "holdfast_file_stale", label).await {
                value if value == wanted => Ok(()),
                value => Err(value),
            }
        })
        .await;
    };
    fs::copy(pem("two.pem"), &certificate).expect("a certificate");
    stale(1.0).await;
    let told = |line: &str| line.contains("must hold the key of tls_cert_file");
    role.process.wait_for_line(told, SOON).await;
    submit(&pem("ca.pem"), "c").await.exited(0);
    place("two");
    stale(0.0).await;
    submit(&pem("ca.pem"), "d").await.exited(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_calls_that_others_reach_speak_tls_with_a_certificate_that_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let [certificate, key, keys, own] =
        ["cert", "key", "keys", "own"].map(|name| folder.path().join(name));
    let place = |pair: [PathBuf; 2]| {
        fs::copy(&pair[0], &certificate).expect("a certificate");
        fs::copy(&pair[1], &key).expect("a key");
    };
    place([pem("one.pem"), pem("one.key")]);
    let made = ["key", "new", "--tenant", "ops", "--scopes", "operate", "--output", "json"];
    let made = ctl(&made).await.exited(0).json();
    fs::write(&keys, made["line"].as_str().expect("a line")).expect("keys");
    fs::write(&own, made["key"].as_str().expect("a key")).expect("a key");
    let port = free_port();
    let lines = [
        format!("tls_cert_file = \"{}\"", certificate.display()),
        format!("tls_key_file = \"{}\"", key.display()),
        format!("keys_file = \"{}\"", keys.display()),
        format!("operator_listen = \"0.0.0.0:{port}\""),
    ];
    let setup = Setup { producer: lines.join("\n"), ..Setup::default() };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let role = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    fleet.ready(role.ops).await;

    let list = async |scheme: &str, trusted: &Path| -> Ran {
        let operator = format!("{scheme}://127.0.0.1:{port}");
        let arguments = ["queue", "ls", "--operator", &operator, "--key-file", arg(&own)];
        let mut command = command(&arguments);
        command.env("SSL_CERT_FILE", trusted);
        ended(command).await
    };
    list("https", &pem("ca.pem")).await.exited(0);
    list("http", &pem("ca.pem")).await.exited(1);
    let [ca, next, next_key] = ["next-ca.pem", "next-server.pem", "next-server.key"]
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/pem").join(name));
    let stranger = list("https", &ca).await.exited(1);
    assert!(stranger.stderr.contains("certificate"), "{}", stranger.stderr);
    place([next, next_key]);
    eventually("the new certificate is shown", SOON, async || {
        let ran = list("https", &ca).await;
        if ran.code == Some(0) { Ok(()) } else { Err(ran.stderr) }
    })
    .await;
    list("https", &pem("ca.pem")).await.exited(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_that_does_not_fit_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("holdfast.toml");
    let text = format!(
        "[producer]\ntls_cert_file = \"{}\"\ntls_key_file = \"{}\"\n[queues.q]\ntarget = \"http://127.0.0.1:1\"\n",
        pem("one.pem").display(),
        pem("two.key").display()
    );
    fs::write(&config, text).expect("settings");
    let ran =
        Process::run(env!("CARGO_BIN_EXE_it-producer"), &["--config", arg(&config)], &[]).await;
    assert_eq!(ran.status.code(), Some(64), "{}", ran.stderr);
    let told = "must hold the key of tls_cert_file";
    assert!(
        ran.stderr.contains("producer.tls_key_file = ") && ran.stderr.contains(told),
        "{}",
        ran.stderr
    );
}
