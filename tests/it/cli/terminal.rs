//! Pipes, full disks, secrets, exit codes.

use std::fs::File;
use std::process::Stdio;

use holdfast_testkit::RedisServer;

use super::{api, arg, command, ctl, ended, file};
use crate::fleet::{Fleet, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_left_ends_it_silently_and_a_full_disk_loudly() {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    fleet.submit("a", "{}").await;
    fleet.result("a").await;
    let (folder, lines) = file(super::line("c", "x"));
    let settings = folder.path().join("holdfast.toml");
    std::fs::write(&settings, fleet.settings("producer", 1)).expect("a settings file");
    let (server, url) = (fleet.api(""), fleet.redis.url());
    let at = ["--queue", "q", "--server", &server];
    for arguments in [
        vec!["--help"],
        vec!["--version"],
        vec!["script", "ls"],
        vec!["script", "show", "submit"],
        vec!["check", "--config", arg(&settings)],
        vec!["queue", "ls", "--redis", url],
        vec!["lease", "ls", "--redis", url, "--output", "json"],
        vec!["dead", "ls", "--redis", url],
        vec!["worker", "ls", "--redis", url],
        vec!["why", "a", "--queue", "q", "--redis", url],
        vec!["queue", "limit", "q", "--clear", "--redis", url],
        vec!["dead", "redrive", "--all", "--queue", "q", "--dry-run", "--redis", url],
        [&["get", "a"], &at[..]].concat(),
        [&["result", "a"], &at[..]].concat(),
        [&["submit", "--file", arg(&lines), "--wait", "--out", "-"], &at[..]].concat(),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut left = command(&arguments);
        left.stdout(writer);
        let ran = spawned(left).await.exited(141);
        assert!(
            !ran.stderr.contains("panic") && !ran.stderr.contains("roken pipe"),
            "{arguments:?}: {}",
            ran.stderr
        );

        let mut full = command(&arguments);
        full.stdout(File::options().write(true).open("/dev/full").expect("/dev/full"));
        let ran = spawned(full).await.exited(1);
        let told = "can't write to standard output: no storage space";
        assert!(ran.stderr.contains(told), "{arguments:?}: {}", ran.stderr);
    }
    let ran = api(&fleet, &["submit", "--file", arg(&lines), "--wait", "--out", "/dev/full"])
        .await
        .exited(1);
    assert!(ran.stderr.contains("can't write to /dev/full: no storage space"), "{}", ran.stderr);
}

/// Runs a command whose standard output goes elsewhere.
async fn spawned(mut command: tokio::process::Command) -> super::Ran {
    command.stderr(Stdio::piped());
    let child = command.spawn().expect("a run");
    let output =
        tokio::time::timeout(super::LIMIT, child.wait_with_output()).await.expect("an end in time");
    let output = output.expect("an end");
    let stderr = String::from_utf8(output.stderr).expect("text");
    super::Ran { code: output.status.code(), stdout: output.stdout, stderr }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_text_goes_into_a_pipe_whatever_the_terminal_is_called() {
    let fleet = Fleet::start().await;
    fleet.submit("a", "{}").await;
    let (_folder, lines) = file([super::line("c", "x"), "{".to_owned()].join("\n"));
    let server = fleet.api("");
    let at = ["--queue", "q", "--server", &server];
    for (name, value) in [("TERM", "xterm-256color"), ("TERM", "dumb"), ("NO_COLOR", "1")] {
        for arguments in [
            vec!["--help"],
            vec!["nonsense"],
            vec!["script", "ls"],
            vec!["queue", "ls", "--redis", fleet.redis.url()],
            [&["get", "a"], &at[..]].concat(),
            [&["submit", "--file", arg(&lines)], &at[..]].concat(),
        ] {
            let mut command = command(&arguments);
            command.env(name, value);
            let ran = ended(command).await;
            let all = format!("{}{}", ran.text(), ran.stderr);
            assert!(
                !all.is_empty() && !all.contains('\u{1b}') && !all.contains('\r'),
                "{arguments:?}: {all:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_the_command_line_or_the_settings_is_printed() {
    let redis = RedisServer::start().await;
    redis.command(&["ACL", "SETUSER", "ad", "on", ">S3CRET1", "~*", "&*", "+@all"]).await;
    let port = redis.port();
    let right = format!("redis://ad:S3CRET1@127.0.0.1:{port}");
    let wrong = format!("redis://ad:S3CRET2@127.0.0.1:{port}");
    let setup = Setup { redis_url: Some(right.clone()), ..Setup::default() };
    let fleet = Fleet::without_producer(setup, redis).await;
    let (folder, key) = file("S3CRET3\n");
    let settings = folder.path().join("holdfast.toml");
    std::fs::write(&settings, fleet.settings("producer", 1)).expect("a settings file");
    let broken = folder.path().join("broken.toml");
    std::fs::write(
        &broken,
        "[redis]\nurl = \"redis://ad:S3CRET4@h:port\"\n[worker]\nleash = \"S3CRET5\"\n",
    )
    .expect("a file");

    let nobody = format!("http://127.0.0.1:{}", holdfast_testkit::free_port());
    for (arguments, code) in [
        (vec!["queue", "ls", "--redis", &right], 0),
        (vec!["queue", "ls", "--redis", &wrong], 1),
        (vec!["queue", "ls", "--redis", "redis://ad:S3CRET@127.0.0.1:port"], 64),
        (vec!["queue", "ls", &right], 2),
        (vec!["queue", "ls", "--rediss", &right], 2),
        (vec!["lease", "ls", "--config", arg(&settings)], 0),
        (vec!["check", "--config", arg(&settings)], 0),
        (vec!["check", "--config", arg(&broken)], 64),
        (vec!["get", "x", "--server", "http://ad:S3CRET@h"], 2),
        (vec!["get", "x", "--server", &nobody, "--key-file", arg(&key)], 1),
        (vec!["get", "x", "--server", &nobody, "--key-file", "/dev/null"], 1),
    ] {
        let ran = ctl(&arguments).await;
        let all = format!("{}{}", ran.text(), ran.stderr);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {all}");
        assert!(!all.contains("S3CRET"), "{arguments:?}: {all}");
    }
    let shown = ctl(&["check", "--config", arg(&settings)]).await;
    assert!(
        shown.text().contains(&format!("@127.0.0.1:{port}")),
        "host and port stay: {}",
        shown.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_sent_as_a_bearer_and_nothing_else_is_said_of_it() {
    let gateway = holdfast_testkit::StandIn::start(Default::default()).await.expect("a server");
    let (_folder, key) = file("S3CRET\n");
    let ran =
        ctl(&["get", "x", "--server", &gateway.url(), "--key-file", arg(&key)]).await.exited(1);
    assert!(
        ran.stderr.contains("is --server its API?") && !ran.stderr.contains("S3CRET"),
        "{}",
        ran.stderr
    );
    let arrival = &gateway.arrivals()[0];
    assert_eq!(arrival.headers["authorization"], "Bearer S3CRET");
    assert_eq!(arrival.path, "/v1/queues/default/requests/x");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_tells_every_fault_with_64_and_prints_what_can_be_read_again() {
    let (folder, broken) =
        file("[worker]\nlease = \"500ms\"\nleash = \"1s\"\n[queues.q]\ntarget = \"ftp://h\"\n");
    let ran = ctl(&["check", "--config", arg(&broken)]).await.exited(64);
    for told in ["worker.lease = 500ms", "worker.leash", "queues.q.target"] {
        assert!(ran.stderr.lines().any(|line| line.contains(told)), "{told}: {}", ran.stderr);
    }
    assert!(ran.stdout.is_empty());
    let ran = ctl(&["check"]).await.exited(64);
    assert!(ran.stderr.contains("must declare a queue"), "{}", ran.stderr);

    let good = folder.path().join("good.toml");
    std::fs::write(&good, "[queues.q]\ntarget = \"http://h\"\n").expect("a file");
    let mut command = command(&["check"]);
    command.env("HOLDFAST_CONFIG", &good).env("HOLDFAST_WORKER_LEASE", "6s");
    let shown = ended(command).await.exited(0);
    assert!(shown.text().contains("lease = \"6s\""), "the environment counts: {}", shown.text());
    let again = folder.path().join("again.toml");
    std::fs::write(&again, shown.text()).expect("a file");
    assert_eq!(ctl(&["check", "--config", arg(&again)]).await.exited(0).text(), shown.text());
    let missing = ctl(&["check", "--config", "nowhere.toml"]).await.exited(64);
    let whole = std::path::absolute("nowhere.toml").expect("a path");
    let told = format!("{} can't be read: no such file", whole.display());
    assert!(missing.stderr.contains(&told), "{}", missing.stderr);
    let doubled = folder.path().join("doubled.toml");
    std::fs::write(&doubled, "[queues.q]\ntarget = \"http://h/v1\"\n").expect("a file");
    let doubled = ctl(&["check", "--config", arg(&doubled)]).await.exited(0);
    assert!(
        doubled.stderr.contains("http://h/v1/v1/chat/completions is called"),
        "{}",
        doubled.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_shown_is_the_one_that_redis_runs() {
    let redis = RedisServer::start().await;
    let listed = ctl(&["script", "ls", "--output", "json"]).await.exited(0).json();
    let listed = listed.as_array().expect("a list");
    assert!(listed.len() >= 16);
    for script in listed {
        let name = script["name"].as_str().expect("a name");
        let text = ctl(&["script", "show", name]).await.exited(0).stdout;
        let loaded = redis.command(&[b"SCRIPT".as_slice(), b"LOAD", &text]).await;
        assert_eq!(loaded.text(), script["sha1"].as_str(), "{name}");
    }
    let unknown = ctl(&["script", "show", "nonsense"]).await.exited(1);
    assert!(unknown.stderr.contains("there is no script nonsense"), "{}", unknown.stderr);
}
