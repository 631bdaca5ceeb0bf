//! What the Dockerfile would put into the image, run in an empty folder: no shell, no library, a root that can't be
//! written, process 1 of its own, the user of the image. What a role needs and the image lacks shows here.

use std::ffi::OsString;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_runtime::settings::GRACE;
use holdfast_testkit::Process;
use holdfast_testkit::stand_in::Rule;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::image::{Image, STATIC, dockerfile, programs};
use crate::missing::skip;
use crate::rendered::root;
use crate::stage::{Running, SOON, Stage, Start};

/// Where the name server of these containers is; the port of DNS is nobody's on this address.
const NAME_SERVER: &str = "127.86.0.53";

/// The one name that it knows.
const GATEWAY: &str = "gateway.inference.svc.cluster.local";

/// A queue whose target is reached by TLS, so that the worker wants the certificates of the image.
const BY_TLS: &str = "[queues.tls]\ntarget = \"https://gateway.example\"\n";

/// The programs of the image, built once a process; or why they can't be.
static BINARIES: LazyLock<Result<PathBuf, String>> = LazyLock::new(build);

/// Builds them as the Dockerfile does, but for the profile: what is there already is linked another way.
fn build() -> Result<PathBuf, String> {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = tmp.parent().expect("tmp lies in the target folder");
    let into = tmp.join("image");
    fs::create_dir_all(&into).map_err(|err| err.to_string())?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let folder = target.join("debug");
    for name in programs(&dockerfile()) {
        let built_as = format!("image-{}", name.trim_start_matches("holdfast-"));
        let mut command = Command::new(&cargo);
        command.current_dir(root()).args(["rustc", "--locked", "--package", "holdfast-tests"]);
        command.args(["--features", "image-build", "--bin", &built_as]);
        command.arg("--target-dir").arg(target).args(["--", "-C", STATIC]);
        // What cargo says of this very test would have some build scripts run again.
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&variable);
            }
        }
        let built = command.output().map_err(|err| err.to_string())?;
        if !built.status.success() {
            return Err(String::from_utf8_lossy(&built.stderr).into_owned());
        }
        fs::copy(folder.join(&built_as), into.join(&name)).map_err(|err| err.to_string())?;
    }
    Ok(into)
}

/// Why nothing can be contained here, if so.
fn lacking() -> Option<String> {
    let mut probe = Command::new("unshare");
    probe.args([
        "--pid",
        "--fork",
        "--mount",
        "--",
        "setpriv",
        "--no-new-privs",
        "chroot",
        "/",
        "true",
    ]);
    match probe.output() {
        Ok(done) if done.status.success() => BINARIES.as_ref().err().cloned(),
        Ok(done) => Some(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(err) => Some(err.to_string()),
    }
}

/// A container's root, put together as the image and as a runtime does.
struct Container {
    image: Image,
    root: TempDir,
    /// What it is started with, which it does not see.
    beside: TempDir,
}

impl Container {
    fn new() -> Self {
        let (image, root) = (Image::read(&dockerfile()), tempfile::tempdir().expect("a folder"));
        // Like every root, it can be entered by everybody.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        image.lay(BINARIES.as_ref().expect("binaries"), root.path());
        for folder in ["proc", "dev", "etc"] {
            fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        for device in ["null", "zero", "full", "random", "urandom"] {
            fs::write(root.path().join("dev").join(device), "").expect("a place for a device");
        }
        // As the kubelet writes them, with an alias for Redis among the hosts.
        let hosts = "127.0.0.1 localhost\n127.0.0.1 holdfast-redis\n";
        fs::write(root.path().join("etc/hosts"), hosts).expect("hosts");
        let resolver = format!(
            "search holdfast.svc.cluster.local svc.cluster.local cluster.local\nnameserver {NAME_SERVER}\n\
             options ndots:5\n"
        );
        fs::write(root.path().join("etc/resolv.conf"), resolver).expect("resolv.conf");
        Self { image, root, beside: tempfile::tempdir().expect("a folder") }
    }

    /// Runs words in it, with these variables on top of the image's.
    fn run(&self, words: &[String], environment: &[(String, String)]) -> Process {
        let variables = self.beside.path().join("variables");
        let lines = self.image.environment.iter().chain(environment);
        let lines: String = lines.map(|(name, value)| format!("{name}={value}\n")).collect();
        fs::write(&variables, lines).expect("variables");
        let script = root().join("tests/deploy/contain.sh");
        let own = ["--pid", "--fork", "--kill-child", "--mount", "--", "sh"].map(str::to_owned);
        let (script, variables) = (script.display().to_string(), variables.display().to_string());
        let place = self.root.path().display().to_string();
        let mut arguments = own.to_vec();
        arguments.extend([script, place, self.image.user.clone(), variables]);
        arguments.extend(words.iter().cloned());
        Process::start("unshare", &arguments, &[])
    }

    /// Starts a role as its Deployment says. Redis is reached by its name.
    fn start(&self, stage: &Stage, role: &str) -> Running {
        stage.mount(role, self.root.path());
        let Start { words, mut environment, ports } = stage.start_of(role);
        let url = format!("redis://holdfast-redis:{}", stage.redis.port());
        environment.push(("HOLDFAST_REDIS_URL".to_owned(), url));
        Running { process: self.run(&words, &environment), ports }
    }
}

/// The process of a container, as the machine sees it: the only child of what made its namespace.
fn inmate(container: &Process) -> Option<Pid> {
    let pid = container.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok().map(Pid::from_raw)
}

/// A field of a process's status.
fn status_of(pid: Pid, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.expect("a field").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Answers for one name with 127.0.0.1, for every other that there is none; none if the port can't be had.
fn serve_names() -> Option<()> {
    let socket = UdpSocket::bind((NAME_SERVER, 53)).ok()?;
    thread::spawn(move || {
        let mut asked = [0; 512];
        while let Ok((size, from)) = socket.recv_from(&mut asked) {
            let _ = socket.send_to(&told(&asked[..size]), from);
        }
    });
    Some(())
}

/// The answer to a question of one name.
fn told(asked: &[u8]) -> Vec<u8> {
    let (mut at, mut name) = (12, Vec::new());
    while asked[at] != 0 {
        let length = usize::from(asked[at]);
        name.push(String::from_utf8_lossy(&asked[at + 1..=at + length]).to_lowercase());
        at += length + 1;
    }
    let question = &asked[12..at + 5];
    let known = name.join(".") == GATEWAY;
    let address = known && asked[at + 2] == 1;
    // Recursion is there; code 3: there is no such name.
    let mut answer = asked[..2].to_vec();
    answer.extend([0x85, if known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(address), 0, 0, 0, 0]);
    answer.extend(question);
    if address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 127, 0, 0, 1]);
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_runs_in_the_image_as_process_1_and_ends_when_it_is_told() {
    if let Some(why) = lacking() {
        return skip(&format!("the image can't be replayed (root, unshare, a static libc): {why}"));
    }
    static NAMES: LazyLock<Option<()>> = LazyLock::new(serve_names);
    if NAMES.is_none() {
        return skip("the port of DNS can't be had");
    }
    let target = |port| format!("http://{GATEWAY}:{port}");
    let Some(stage) = Stage::set(target, BY_TLS).await else { return };
    let roles = ["producer", "worker", "reclaimer"];
    let containers = roles.map(|_| Container::new());
    let mut running: Vec<Running> = roles
        .iter()
        .zip(&containers)
        .map(|(role, container)| container.start(&stage, role))
        .collect();
    for (role, running) in roles.iter().zip(&running) {
        stage.probed(role, running).await;
        let pid = inmate(&running.process).expect("a process");
        assert!(status_of(pid, "NSpid").ends_with(" 1"), "{role}: it is not process 1");
        assert_eq!(status_of(pid, "Uid"), "65532 65532 65532 65532", "{role}");
        assert_eq!(status_of(pid, "Groups"), "", "{role}");
        assert_eq!(status_of(pid, "CapEff"), "0".repeat(16), "{role}: it has capabilities");
        assert_eq!(status_of(pid, "NoNewPrivs"), "1", "{role}");
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("mounts");
        let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/"));
        assert!(root.expect("a root").split(' ').nth(5).unwrap().starts_with("ro"), "{role}");
    }

    // A call is under way when they are told: it is finished, and brought home.
    let (api, worker) = (&running[0], &running[1]);
    stage.gateway.script(vec![Rule::new().delay(Duration::from_secs(2))]).expect("a rule");
    stage.submit(api, "default", "last", "1m").await;
    stage.gateway.wait_for_arrivals(1, SOON).await.expect("the gateway is found by its name");
    let pid = inmate(&worker.process).expect("a process");
    kill(pid, Signal::SIGTERM).expect("SIGTERM");
    assert_eq!(stage.outcome(api, "default", "last").await, "answered");
    for ((role, running), told) in roles.iter().zip(&mut running).zip([false, true, false]) {
        let asked = Instant::now();
        if !told {
            kill(inmate(&running.process).expect("a process"), Signal::SIGTERM).expect("SIGTERM");
        }
        let status = running.process.wait(GRACE).await;
        assert!(status.success(), "{role}: {status}: {}", running.process.output());
        assert!(asked.elapsed() < Duration::from_secs(10), "{role}: {:?}", asked.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_word_the_image_tells_how_it_is_used() {
    if let Some(why) = lacking() {
        return skip(&format!("the image can't be replayed (root, unshare, a static libc): {why}"));
    }
    let container = Container::new();
    let words = container.image.command.clone();
    let mut told = container.run(&words, &[]);
    let status = told.wait(SOON).await;
    assert!(status.success() && told.stdout().contains("Usage: holdfastctl"), "{}", told.output());
    // A program that needs a library of the system would not get as far.
    for name in programs(&dockerfile()) {
        let mut told = container.run(&[name.clone(), "--version".to_owned()], &[]);
        assert!(told.wait(SOON).await.success(), "{name}: {}", told.output());
    }
    let mut shell = container.run(&["sh".to_owned()], &[]);
    let status = shell.wait(SOON).await;
    assert_eq!(status.code(), Some(127), "there is a shell: {}", shell.output());
}

/// The name server itself, so that a failure of the roles is one of theirs.
#[test]
fn the_name_server_knows_one_name() {
    let question = |name: &str, kind: u8| {
        let mut asked = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            asked.push(u8::try_from(label.len()).unwrap());
            asked.extend(label.bytes());
        }
        asked.extend([0, 0, kind, 0, 1]);
        told(&asked)
    };
    assert!(question(GATEWAY, 1).ends_with(&[127, 0, 0, 1]));
    assert_eq!(question(GATEWAY, 28)[3] & 15, 0);
    assert_eq!(question("gateway.inference.svc", 1)[3] & 15, 3);
}
