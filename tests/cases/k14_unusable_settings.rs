//! K14: settings that can't work are refused before anything connects.
//!
//! A lease that is shorter than its renewals, half a second cut to nothing, a negative number taken for a huge one: each
//! of them starts well and dispatches twice later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_testkit::Process;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::pace::beside_others;

const WORKER: &str = env!("CARGO_BIN_EXE_it-worker");
const PRODUCER: &str = env!("CARGO_BIN_EXE_it-producer");
const RECLAIMER: &str = env!("CARGO_BIN_EXE_it-reclaimer");

/// A port in place of Redis and gateway, which counts who connects.
struct Trap {
    port: u16,
    caught: Arc<AtomicUsize>,
    _listening: JoinSet<()>,
}

impl Trap {
    async fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (port, caught) =
            (listener.local_addr().expect("a port").port(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&caught);
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, caught, _listening: listening }
    }

    fn caught(&self) -> usize {
        self.caught.load(Ordering::SeqCst)
    }

    /// A settings file with these lines in the sections that they name.
    fn file(&self, section: &str, lines: &str) -> tempfile::NamedTempFile {
        let ops = holdfast_testkit::free_port();
        let mut text = String::new();
        for name in ["redis", "producer", "worker", "reclaimer", "queues.q"] {
            text.push_str(&format!("[{name}]\n"));
            match name {
                "redis" => text.push_str(&format!("url = \"redis://127.0.0.1:{}\"\n", self.port)),
                "queues.q" => {
                    text.push_str(&format!("target = \"http://127.0.0.1:{}\"\n", self.port))
                }
                _ => text.push_str(&format!("ops_listen = \"127.0.0.1:{ops}\"\n")),
            }
            if name == "producer" {
                text.push_str(&format!(
                    "listen = \"127.0.0.1:{}\"\n",
                    holdfast_testkit::free_port()
                ));
            }
            if name == section {
                text.push_str(&format!("{lines}\n"));
            }
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("a settings file");
        file
    }
}

/// Each as lines of a section, with the field and a word of the rule that must be told.
const REFUSED: [(&str, &str, &str, &str); 19] = [
    ("worker", "lease = \"500ms\"", "worker.lease", "1s"),
    ("worker", "lease = \"0s\"", "worker.lease", "1s"),
    ("worker", "lease = \"0\"", "worker.lease", "unit"),
    ("worker", "lease = 0", "worker.lease", "unit"),
    ("worker", "lease = -1", "worker.lease", "unit"),
    ("worker", "lease = \"-1s\"", "worker.lease", "unit"),
    ("worker", "lease = \"5m \"", "worker.lease", "without spaces"),
    ("worker", "lease = \"2.5s\"", "worker.lease", "whole number"),
    ("worker", "lease = \"6s\"\nrenew = \"6s\"", "worker.renew", "half"),
    ("worker", "lease = \"6s\"\nrenew = \"7s\"", "worker.renew", "half"),
    ("worker", "drain = \"60s\"", "worker.drain", "28s"),
    ("worker", "concurrency = 0", "worker.concurrency", "1 to"),
    ("worker", "concurrency = -1", "worker.concurrency", "whole number"),
    ("reclaimer", "every = \"0s\"", "reclaimer.every", "10ms"),
    ("reclaimer", "every = \"-1s\"", "reclaimer.every", "unit"),
    ("reclaimer", "every = \"20s\"", "reclaimer.every", "lease"),
    ("queues.q", "capacity = 0", "queues.q.capacity", "1 to"),
    ("queues.q", "in_flight = 0", "queues.q.in_flight", "1 to"),
    ("queues.q", "max_lapses = 0", "queues.q.max_lapses", "4"),
];

/// Every role refuses the whole file, whatever section it reads itself.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_refused_by_name_and_rule_before_anything_connects() {
    let _shared = beside_others().await;
    let trap = Trap::set().await;
    for (at, (section, lines, field, rule)) in REFUSED.into_iter().enumerate() {
        let file = trap.file(section, lines);
        let program = [WORKER, PRODUCER, RECLAIMER][at % 3];
        let ended =
            Process::run(program, &["--config".as_ref(), file.path().as_os_str()], &[]).await;
        let told = &ended.stderr;
        assert_eq!(ended.status.code(), Some(64), "{lines}: {told}");
        assert!(told.contains(field) && told.contains(rule), "{lines}: {told}");
        assert_eq!(told.lines().count(), 1, "{lines}: one line for whoever started it: {told}");
    }
    assert_eq!(trap.caught(), 0, "something was connected to");
}

/// The same by the environment, and all faults in one go.
#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_held_to_the_same_rules_and_every_fault_is_told_at_once() {
    let _shared = beside_others().await;
    let trap = Trap::set().await;
    let file = trap.file("worker", "drain = \"60s\"");
    let environment = [
        ("HOLDFAST_WORKER_LEASE", "500ms"),
        ("HOLDFAST_RECLAIMER_EVERY", "0s"),
        ("HOLDFAST_WORKER_CONCURRENCY", ""),
    ];
    let ended =
        Process::run(WORKER, &["--config".as_ref(), file.path().as_os_str()], &environment).await;
    assert_eq!(ended.status.code(), Some(64), "{}", ended.stderr);
    for field in [
        "HOLDFAST_WORKER_LEASE",
        "HOLDFAST_RECLAIMER_EVERY",
        "HOLDFAST_WORKER_CONCURRENCY",
        "worker.drain",
    ] {
        assert!(ended.stderr.contains(field), "{field} is not told: {}", ended.stderr);
    }
    assert_eq!(trap.caught(), 0);
}

/// What is at the edge of the rules is taken as it is written; it is then that the trap snaps.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_within_the_rules_starts_and_connects() {
    let _shared = beside_others().await;
    let trap = Trap::set().await;
    let file = trap
        .file("worker", "lease = \"1500ms\"\nrenew = \"750ms\"\ndrain = \"28s\"\nconcurrency = 1");
    let every = [("HOLDFAST_RECLAIMER_EVERY", "500ms")];
    let mut process =
        Process::start(WORKER, &["--config".as_ref(), file.path().as_os_str()], &every);
    holdfast_testkit::eventually("it connects", Duration::from_secs(10), async || {
        match trap.caught() {
            0 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    assert!(process.is_running(), "{}", process.output());
}
