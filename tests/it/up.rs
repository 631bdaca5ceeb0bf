//! `holdfast up`: everything in one process, and nothing lost between two of them.

mod full_disk;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_testkit::stand_in::Options;
use holdfast_testkit::{Http, Process, RedisServer, StandIn, eventually};
use tempfile::TempDir;

/// How long a test waits for what must come.
const SOON: Duration = Duration::from_secs(30);

const HOLDFAST: &str = env!("CARGO_BIN_EXE_it-holdfast");

/// A running `up` on ports of its own.
struct Up {
    process: Process,
    http: Http,
    api: String,
}

impl Up {
    /// Starts one over the data in `folder` and waits until it says that it is up.
    async fn start(folder: &Path, more: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::started(start(folder, more, environment)).await
    }

    async fn started(process: Process) -> Self {
        // Fetching a server may be part of it.
        process.wait_for_line(|line| line.starts_with("Ctrl-C"), Duration::from_secs(120)).await;
        let mut up = Self { process, http: Http::new(), api: String::new() };
        up.api = up.told("API");
        up
    }

    /// What it says of a thing: the first word after its name.
    fn told(&self, name: &str) -> String {
        let output = self.process.stderr();
        let mut words = output.lines().map(str::split_whitespace);
        let line = words.find_map(|mut line| (line.next()? == name).then_some(line));
        line.and_then(|mut line| line.next())
            .unwrap_or_else(|| panic!("no {name} in {output}"))
            .to_owned()
    }

    async fn submit(&self, id: &str) {
        let url = format!("{}/v1/queues/default/requests", self.api);
        let body = format!(
            r#"{{"id":"{id}","payload":{{"messages":[{{"role":"user","content":"{id}"}}]}}}}"#
        );
        let answer =
            self.http.request("POST", &url, &[("content-type", "application/json")], body).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    /// The answer to a request, once there is one.
    async fn result(&self, id: &str) -> String {
        let url = format!("{}/v1/queues/default/requests/{id}/result?wait=30", self.api);
        let answer = self.http.request("GET", &url, &[], "").await;
        assert_eq!(
            (answer.status, answer.header("holdfast-outcome")),
            (200, Some("answered")),
            "{id}"
        );
        answer.text().to_owned()
    }
}

/// `holdfast up` on free ports.
fn start(folder: &Path, more: &[&str], environment: &[(&str, &str)]) -> Process {
    let data = folder.join("data");
    let data = data.to_str().unwrap();
    let args = [&["up", "--data", data, "--ops-listen", "127.0.0.1:0"], more].concat();
    Process::start(HOLDFAST, &args, &[&free_ports()[..], environment].concat())
}

fn free_ports() -> [(&'static str, &'static str); 2] {
    ["HOLDFAST_PRODUCER_LISTEN", "HOLDFAST_PRODUCER_OPERATOR_LISTEN"].map(|it| (it, "127.0.0.1:0"))
}

/// The exit code and the output of an `up` that does not come up.
async fn refused(
    folder: &Path,
    more: &[&str],
    environment: &[(&str, &str)],
) -> (Option<i32>, String) {
    let mut process = start(folder, more, environment);
    let status = process.wait(Duration::from_secs(120)).await;
    (status.code(), process.output())
}

/// The process id of its Redis.
fn server(folder: &Path) -> Option<i32> {
    let noted = fs::read_to_string(folder.join("data/server.pid")).ok()?;
    noted.split_whitespace().next()?.parse().ok()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Every file below a folder, with its bytes; but for those that a running server writes all the time.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if folder.ends_with("appendonlydir") {
            found.push((path.display().to_string(), Vec::new()));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_serves_real_work_and_says_that_a_stand_in_answers() {
    let folder = folder();
    let mut up = Up::start(folder.path(), &[], &[]).await;
    assert!(up.process.stderr().contains("THE STAND-IN"));
    up.submit("r1").await;
    assert!(up.result("r1").await.contains("arrival 1"));
    let ready =
        up.http.request("GET", &up.told("ops").replace("/metrics,", "/readyz"), &[], "").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert!(up.process.terminate().await.success(), "{}", up.process.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_start_again_loses_nothing() {
    let (folder, gateway) = (folder(), StandIn::start(Options::default()).await.unwrap());
    let (target, environment) =
        (gateway.url(), [("HOLDFAST_WORKER_CONCURRENCY", "4"), ("HOLDFAST_WORKER_DRAIN", "300ms")]);
    let mut first = Up::start(folder.path(), &["--target", &target], &environment).await;
    assert!(!first.process.stderr().contains("STAND-IN"), "the target is real");
    first.submit("before").await;
    let before = first.result("before").await;
    gateway.hold(true);
    for number in 0..20 {
        first.submit(&format!("r{number}")).await;
    }
    gateway.wait_for_arrivals(5, SOON).await.expect("four are in flight, sixteen wait");
    assert!(first.process.terminate().await.success(), "{}", first.process.output());

    gateway.hold(false);
    let mut second = Up::start(folder.path(), &["--target", &target], &environment).await;
    assert_eq!(second.result("before").await, before, "a record is kept as it was");
    for number in 0..20 {
        let id = format!("r{number}");
        assert!(second.result(&id).await.contains(&id));
    }
    assert!(second.process.terminate().await.success(), "{}", second.process.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_with_its_redis_it_goes_on_where_it_was() {
    let (folder, gateway) = (folder(), StandIn::start(Options::default()).await.unwrap());
    let target = gateway.url();
    let args = ["--target", &target, "--appendfsync", "always"];
    let environment = [("HOLDFAST_WORKER_LEASE", "2s"), ("HOLDFAST_RECLAIMER_EVERY", "200ms")];
    let mut first = Up::start(folder.path(), &args, &environment).await;
    gateway.hold(true);
    for number in 0..20 {
        first.submit(&format!("r{number}")).await;
    }
    gateway.wait_for_arrivals(20, SOON).await.expect("all in flight");
    first.process.kill();

    gateway.hold(false);
    let second = Up::start(folder.path(), &args, &environment).await;
    for number in 0..20 {
        second.result(&format!("r{number}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_redis_that_dies_is_started_again_on_its_data() {
    let folder = folder();
    let up = Up::start(folder.path(), &["--appendfsync", "always"], &[]).await;
    up.submit("before").await;
    let before = up.result("before").await;
    let server = || server(folder.path());
    let old = server().expect("a pid file");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(old), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    let looked = eventually("another server runs", SOON, async || {
        server().filter(|pid| *pid != old).ok_or("the old one is noted")
    });
    looked.await;

    let url = format!("{}/v1/queues/default/requests/before/result", up.api);
    let again = eventually("the API answers again", SOON, async || {
        let answer = up.http.request("GET", &url, &[], "").await;
        if answer.status == 200 {
            Ok(answer.text().to_owned())
        } else {
            Err(answer.status.to_string())
        }
    });
    assert_eq!(again.await, before);
    up.submit("after").await;
    up.result("after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_up_on_the_same_folder_is_refused_and_changes_nothing() {
    let folder = folder();
    let first = Up::start(folder.path(), &[], &[]).await;
    let before = files(folder.path());
    let (code, output) = refused(folder.path(), &[], &[]).await;
    assert_eq!(code, Some(1));
    assert!(output.contains(&format!("in use by process {}", first.process.pid())), "{output}");
    assert_eq!(files(folder.path()), before);
    first.submit("r1").await;
    first.result("r1").await;
}

/// A program that says that it is a server of the other kind than the one that ran here, and which.
fn other_server(folder: &Path, kind: &str) -> (PathBuf, &'static str) {
    let (said, told) = match kind {
        "Valkey" => ("Redis server v=7.0.0 sha=0", "Redis 7.0.0 at"),
        _ => ("Valkey server v=7.2.0 sha=0", "Valkey 7.2.0 at"),
    };
    let path = folder.join("bin/redis-server");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(&path, format!("#!/bin/sh\necho '{said}'\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (path, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_stays_with_the_server_that_wrote_it_and_no_other_touches_it() {
    let folder = folder();
    let mut first = Up::start(folder.path(), &[], &[]).await;
    first.submit("before").await;
    let before = first.result("before").await;
    assert!(first.process.terminate().await.success(), "{}", first.process.output());

    let note = folder.path().join("data/written-by");
    let kept = fs::read_to_string(&note).unwrap();
    let kind = kept.split_whitespace().next().unwrap();
    let (other, told) = other_server(folder.path(), kind);
    let (other, search) = (other.to_str().unwrap(), other.parent().unwrap().to_str().unwrap());
    let path = ["--search-path", search];
    let mut second = Up::start(folder.path(), &path, &[]).await;
    assert_eq!(second.result("before").await, before);
    assert!(second.process.terminate().await.success(), "{}", second.process.output());

    let by = format!("{kind} 99.0.0 at /gone/server");
    for args in [&["--redis-server", other][..], &[]] {
        if args.is_empty() {
            // No cache holds this one.
            fs::write(&note, format!("{kind} 99.0.0 /gone/server\n")).unwrap();
        }
        let data = files(folder.path());
        let (code, output) = refused(folder.path(), &[args, &path].concat(), &[]).await;
        assert_eq!(code, Some(1), "{output}");
        let by = if args.is_empty() { by.as_str() } else { "was written by" };
        for word in [by, told, "can't be trusted to read it", "--redis-server"] {
            assert!(output.contains(word), "{word} is missing in {output}");
        }
        assert_eq!(files(folder.path()), data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named_with_its_setting() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, output) =
        refused(folder.path(), &[], &[("HOLDFAST_PRODUCER_LISTEN", &address)]).await;
    assert_eq!(code, Some(1));
    assert!(
        output.contains(&address) && output.contains("by HOLDFAST_PRODUCER_LISTEN"),
        "{output}"
    );

    let args = ["up", "--data", folder.path().to_str().unwrap(), "--ops-listen", &address];
    let ended = Process::run(HOLDFAST, &args, &[]).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.stderr.contains(&address) && ended.stderr.contains("by --ops-listen"),
        "{}",
        ended.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ops_port_of_a_role_is_named_as_without_effect() {
    let folder = folder();
    let up = Up::start(folder.path(), &[], &[("HOLDFAST_WORKER_OPS_LISTEN", "127.0.0.1:1")]).await;
    let told = up.process.stderr();
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("has no effect")).collect();
    assert!(matches!(lines[..], [line] if line.starts_with("worker.ops_listen ")), "{told}");
    let help = Process::run(HOLDFAST, &["up", "--help"], &[]).await.stdout;
    assert!(help.contains("ops_listen of a role's section has no effect"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_settings_are_refused_before_anything_is_started() {
    let folder = folder();
    let bad = [("HOLDFAST_WORKER_LEASE", "soon"), ("HOLDFAST_RECLAIMER_EVERY", "never")];
    let (code, output) = refused(folder.path(), &[], &bad).await;
    assert_eq!(code, Some(64));
    assert!(output.contains("worker.lease") && output.contains("reclaimer.every"), "{output}");
    assert!(files(folder.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_of_ones_own_is_used_and_no_private_one_is_started() {
    let (folder, redis) = (folder(), RedisServer::start().await);
    let gateway = StandIn::start(Options::default()).await.unwrap();
    let file = folder.path().join("holdfast.toml");
    let text = format!(
        "[redis]\nurl = \"{}\"\n[queues.default]\ntarget = \"{}\"\n",
        redis.url(),
        gateway.url()
    );
    fs::write(&file, text).unwrap();
    let up = Up::start(folder.path(), &["--config", file.to_str().unwrap()], &[]).await;
    assert_eq!(up.told("redis").trim_end_matches('/'), redis.url());
    assert!(!folder.path().join("data").exists());
    up.submit("r1").await;
    assert!(up.result("r1").await.contains("arrival 1"));
    assert_eq!(gateway.counts().arrived, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stand_in_runs_by_itself_and_answers_like_an_inference_server() {
    let mut process = Process::start(HOLDFAST, &["stand-in", "--listen", "127.0.0.1:0"], &[]);
    let told = process.wait_for_line(|line| line.starts_with("stand-in"), SOON).await;
    let url = told.split_whitespace().nth(1).expect("an address");
    let taken = url.strip_prefix("http://").expect("an address");
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hello"}]}"#;
    let headers = [("content-type", "application/json")];
    let answer =
        Http::new().request("POST", &format!("{url}/v1/chat/completions"), &headers, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("Hello"), "{}", answer.text());
    // Whoever takes the place of another is told so, and by which address.
    let second = Process::run(HOLDFAST, &["stand-in", "--listen", taken], &[]).await;
    assert_eq!(second.status.code(), Some(1), "{}", second.stderr);
    assert!(second.stderr.contains(taken), "{}", second.stderr);
    assert!(process.terminate().await.success(), "{}", process.output());
}
