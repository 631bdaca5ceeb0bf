//! Producers, workers and reclaimers as processes, each role behind a proxy of its own; Redis and the gateway.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_testkit::stand_in::{Arrival, Options};
use holdfast_testkit::{
    AppendFsync, Http, Process, Proxy, RedisServer, StandIn, eventually, free_port,
};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::ledger::Ledger;
use crate::programs::Programs;
use crate::skew::Skew;

/// How long a role may take to be ready, also while Redis is away for a while.
const SOON: Duration = Duration::from_secs(60);
/// The lease of the workers.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How long the gateway takes for an answer.
const SERVICE: Duration = Duration::from_millis(60);

/// Which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Producer,
    Worker,
    Reclaimer,
}

/// A place for one process of a role; it keeps its ports.
pub(crate) struct Place {
    pub(crate) role: Role,
    api: u16,
    ops: u16,
    pub(crate) running: Mutex<Option<Running>>,
}

/// A process in its place.
pub(crate) struct Running {
    pub(crate) process: Process,
    /// What its calls are known by at the gateway.
    pub(crate) mark: String,
}

/// Everything that runs.
pub(crate) struct Stage {
    pub(crate) redis: RedisServer,
    /// Whether Redis loses its last second where it is killed, as with its whole machine.
    pub(crate) forgets: bool,
    pub(crate) gateway: StandIn,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) http: Http,
    pub(crate) skew: Option<Skew>,
    /// What is started, in turn.
    versions: Vec<Programs>,
    /// In front of Redis: of the producers, the workers, the reclaimers.
    pub(crate) lines: Vec<Proxy>,
    pub(crate) places: Vec<Place>,
    folder: TempDir,
    started: AtomicU64,
    /// What must not be, told by processes that are gone.
    badly: Mutex<Vec<String>>,
}

impl Stage {
    /// Starts all of it.
    pub(crate) async fn set(appendfsync: AppendFsync, versions: Vec<Programs>) -> Self {
        let redis = RedisServer::with(|it| {
            it.appendfsync = appendfsync;
            it.args.extend(["--busy-reply-threshold", "100"].map(str::to_owned));
        })
        .await;
        let gateway = StandIn::start(Options { delay: SERVICE, ..Options::default() });
        let gateway = gateway.await.expect("a stand-in");
        let mut lines = Vec::new();
        for _ in 0..3 {
            lines.push(Proxy::start(redis.port()).await);
        }
        let roles = [(Role::Producer, 2), (Role::Worker, 3), (Role::Reclaimer, 2)];
        let places = roles.into_iter().flat_map(|(role, count)| (0..count).map(move |_| role));
        let stage = Self {
            redis,
            forgets: appendfsync != AppendFsync::Always,
            gateway,
            ledger: Arc::new(Ledger::open()),
            http: Http::new(),
            skew: Skew::found(),
            versions,
            lines,
            places: places.map(Place::new).collect(),
            folder: tempfile::tempdir().expect("a folder"),
            started: AtomicU64::new(0),
            badly: Mutex::default(),
        };
        for place in &stage.places {
            stage.start(place, false).await;
        }
        for place in &stage.places {
            stage.ready(place).await;
        }
        stage
    }

    /// The places of a role.
    pub(crate) fn of(&self, role: Role) -> Vec<&Place> {
        self.places.iter().filter(|place| place.role == role).collect()
    }

    /// Where the producers take calls.
    pub(crate) fn apis(&self) -> Vec<String> {
        let producers = self.of(Role::Producer).into_iter();
        producers.map(|place| format!("http://127.0.0.1:{}", place.api)).collect()
    }

    /// The proxy of a role.
    pub(crate) fn line(&self, role: Role) -> &Proxy {
        &self.lines[role as usize]
    }

    /// Starts a process in its place, on a machine whose clock is off if need be.
    pub(crate) async fn start(&self, place: &Place, skewed: bool) {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let mark = format!("?w={number}");
        let path = self.folder.path().join(format!("{number}.toml"));
        fs::write(&path, self.settings(place, &mark)).expect("a settings file");
        let version = &self.versions[number as usize % self.versions.len()];
        let program = match place.role {
            Role::Producer => &version.producer,
            Role::Worker => &version.worker,
            Role::Reclaimer => &version.reclaimer,
        };
        let off = self
            .skew
            .as_ref()
            .filter(|_| skewed)
            .map(|skew| skew.environment(if number.is_multiple_of(2) { "+2h" } else { "-2h" }));
        let environment = off.as_ref().map(|it| &it[..]).unwrap_or_default();
        let process = Process::start(program, &[PathBuf::from("--config"), path], environment);
        let before = place.running.lock().await.replace(Running { process, mark });
        if let Some(before) = before {
            self.badly.lock().await.extend(panics(&before.process));
        }
    }

    fn settings(&self, place: &Place, mark: &str) -> String {
        let (redis, gateway) = (self.line(place.role).url(), self.gateway.url());
        let (here, lease) = (|port: u16| format!("\"127.0.0.1:{port}\""), LEASE.as_millis());
        let ports = |role| if role == place.role { here(place.ops) } else { here(0) };
        format!(
            "[redis]\nurl = \"{redis}\"\ncommand_timeout = \"1s\"\n\
             [producer]\nlisten = {}\noperator_listen = {}\nops_listen = {}\n\
             [worker]\nconcurrency = 32\nlease = \"{lease}ms\"\nrenew = \"{}ms\"\ndrain = \"3s\"\nops_listen = {}\n\
             [reclaimer]\nevery = \"250ms\"\nops_listen = {}\n\
             [queues.q]\ntarget = \"{gateway}\"\npath = \"/v1/chat/completions{mark}\"\nshards = 2\n",
            here(place.api),
            here(0),
            ports(Role::Producer),
            lease / 4,
            ports(Role::Worker),
            ports(Role::Reclaimer),
        )
    }

    /// Waits until the process in a place is ready.
    pub(crate) async fn ready(&self, place: &Place) {
        let url = format!("http://127.0.0.1:{}/readyz", place.ops);
        eventually("a role is ready", SOON, async || {
            let answer = self.http.try_request("GET", &url, &[], "").await?;
            if answer.status == 200 { Ok(()) } else { Err(answer.text().to_owned()) }
        })
        .await;
    }

    /// What a process says of itself.
    pub(crate) async fn metrics(&self, place: &Place) -> Result<String, String> {
        let url = format!("http://127.0.0.1:{}/metrics", place.ops);
        let answer = self.http.try_request("GET", &url, &[], "").await?;
        Ok(answer.text().to_owned())
    }

    /// The calls of a worker that the gateway has not answered.
    pub(crate) fn open_calls(&self, mark: &str) -> Vec<Arrival> {
        let is_open = |it: &Arrival| it.end.is_none() && it.path.ends_with(mark);
        self.latest().into_iter().filter(is_open).collect()
    }

    /// The last arrivals: older ones have ended.
    pub(crate) fn latest(&self) -> Vec<Arrival> {
        const MOST: u64 = 2_000;
        let arrived = self.gateway.counts().arrived;
        let numbers = arrived.saturating_sub(MOST) + 1..=arrived;
        numbers.filter_map(|number| self.gateway.arrival(number)).collect()
    }

    /// Ends whatever is still wrong.
    pub(crate) async fn mend(&self) {
        self.gateway.script(Vec::new()).expect("an empty script");
        for line in &self.lines {
            line.clear();
            line.restore();
        }
        for place in &self.places {
            self.ready(place).await;
        }
    }

    /// Ends all roles in order, and tells of all that ran which did not do well.
    pub(crate) async fn end(&self) -> Vec<String> {
        let mut badly = std::mem::take(&mut *self.badly.lock().await);
        for place in &self.places {
            let Some(mut running) = place.running.lock().await.take() else { continue };
            let status = running.process.terminate().await;
            if !status.success() {
                badly.push(format!("a {:?} ended with {status}", place.role));
            }
            badly.extend(panics(&running.process));
        }
        badly
    }
}

/// What a process says of a panic.
fn panics(process: &Process) -> Option<String> {
    let output = process.output();
    output.lines().find(|line| line.contains("panicked at")).map(str::to_owned)
}

impl Place {
    fn new(role: Role) -> Self {
        Self { role, api: free_port(), ops: free_port(), running: Mutex::new(None) }
    }
}
