//! A file that a setting names and that can't be used: told at the start, by its field and its path.

use std::fs;
use std::path::Path;

use holdfast_testkit::{Finished, Process};

use crate::cli::{arg, ctl};

const GONE: &str = "can't be read: no such file";

/// A settings file with these lines; nothing that it names is connected to.
fn settings(folder: &Path, redis: &str, producer: &str, queue: &str) -> std::path::PathBuf {
    let path = folder.join("holdfast.toml");
    let text = format!(
        "[redis]\nurl = \"rediss://127.0.0.1:1\"\n{redis}\n[producer]\n{producer}\n\
         [queues.q]\ntarget = \"https://127.0.0.1:1\"\n{queue}\n"
    );
    fs::write(&path, text).expect("settings");
    path
}

async fn run(program: &str, config: &Path) -> Finished {
    Process::run(program, &["--config", arg(config)], &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_refuses_a_missing_file_of_its_own_by_field_and_path() {
    const PRODUCER: &str = env!("CARGO_BIN_EXE_it-producer");
    const WORKER: &str = env!("CARGO_BIN_EXE_it-worker");
    const RECLAIMER: &str = env!("CARGO_BIN_EXE_it-reclaimer");
    let folder = tempfile::tempdir().expect("a folder");
    let [none, odd] = ["none", "odd"].map(|name| folder.path().join(name));
    fs::write(&odd, "S3CRET").expect("a file");
    let line = |field: &str, path: &Path| format!("{field} = \"{}\"", path.display());
    let all: [(&str, &str, &[&str]); 8] = [
        ("redis", "password_file", &[PRODUCER, WORKER, RECLAIMER]),
        ("redis", "ca_file", &[PRODUCER, WORKER, RECLAIMER]),
        ("producer", "keys_file", &[PRODUCER]),
        ("producer", "tls_cert_file", &[PRODUCER]),
        ("producer", "tls_key_file", &[PRODUCER]),
        ("queues.q", "credential_file", &[WORKER]),
        ("queues.q", "ca_file", &[WORKER]),
        ("queues.q", "client_key_file", &[WORKER]),
    ];
    for (section, field, roles) in all {
        let other = match field {
            "tls_cert_file" => line("tls_key_file", &odd),
            "tls_key_file" => line("tls_cert_file", &odd),
            "client_key_file" => line("client_cert_file", &odd),
            _ => String::new(),
        };
        let lines = format!("{}\n{other}", line(field, &none));
        let of = |wanted: &str| if section == wanted { lines.as_str() } else { "" };
        let config = settings(folder.path(), of("redis"), of("producer"), of("queues.q"));
        for role in roles {
            let ended = run(role, &config).await;
            let wanted =
                format!("unusable settings: {section}.{field} = {} {GONE}\n", none.display());
            assert_eq!(ended.status.code(), Some(64), "{section}.{field}: {}", ended.stderr);
            assert_eq!(format!("{}\n", ended.stderr.trim_end()), wanted);
        }
        let checked = ctl(&["check", "--config", arg(&config)]).await.exited(64);
        let wanted = format!("holdfastctl: {section}.{field} = {} {GONE}\n", none.display());
        assert_eq!(checked.stderr, wanted);
        ctl(&["check", "--no-files", "--config", arg(&config)]).await.exited(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_tells_every_file_that_cannot_be_used_and_never_what_it_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = folder.path().join("odd");
    fs::write(&odd, "S3CRET 1\nS3CRET 2").expect("a file");
    let line = |field: &str| format!("{field} = \"{}\"\n", odd.display());
    let config = settings(
        folder.path(),
        &(line("password_file") + &line("ca_file")),
        &line("keys_file"),
        &line("credential_file"),
    );
    let told = ctl(&["check", "--config", arg(&config)]).await.exited(64).stderr;
    assert_eq!(told.lines().count(), 4, "{told}");
    for field in
        ["redis.password_file", "redis.ca_file", "producer.keys_file", "queues.q.credential_file"]
    {
        let start = format!("holdfastctl: {field} = {} must hold ", odd.display());
        assert!(told.lines().any(|line| line.starts_with(&start)), "{field}: {told}");
    }
    let operates = ctl(&["queue", "ls", "--config", arg(&config)]).await.exited(64).stderr;
    assert!(
        operates.contains("redis.password_file") && operates.contains("redis.ca_file"),
        "{operates}"
    );
    let data = folder.path().join("data");
    let up = ["up", "--config", arg(&config), "--data", arg(&data)];
    let up = Process::run(env!("CARGO_BIN_EXE_it-holdfast"), &up, &[]).await;
    assert_eq!(up.status.code(), Some(64), "{}", up.stderr);
    assert!(!format!("{told}{operates}{}", up.stderr).contains("S3CRET"));
}
