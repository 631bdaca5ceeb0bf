//! A Redis, a producer, and a worker when one is wanted: real processes of the release build.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::keys::ShardKeys;
use holdfast_core::model::QueueName;
use holdfast_testkit::{Http, Process, RedisServer, eventually, free_port};
use tempfile::TempDir;

/// How long a role may take to be ready.
const SOON: Duration = Duration::from_secs(30);

/// The one queue.
const QUEUE: &str = "bench";

/// Where requests are submitted, on the port of the API.
pub(crate) const SUBMIT_PATH: &str = "/v1/queues/bench/requests";

/// How many connections a producer takes: more than any bench opens.
const CONNECTIONS: usize = 8192;

/// What all roles share. Everything ends with it.
pub(crate) struct Stage {
    pub(crate) redis: RedisServer,
    pub(crate) http: Http,
    /// Where requests are submitted.
    pub(crate) submit_url: String,
    keys: ShardKeys,
    settings: PathBuf,
    api: u16,
    ops: [u16; 2],
    producer: Process,
    _folder: TempDir,
}

impl Stage {
    /// Redis, as `holdfast up` runs it, and a producer that is ready.
    pub(crate) async fn set(target: &str, concurrency: usize) -> Self {
        Self::on(RedisServer::start().await, target, concurrency).await
    }

    /// The same on a given server.
    pub(crate) async fn on(redis: RedisServer, target: &str, concurrency: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = folder.path().join("bench.toml");
        let (api, ops) = (free_port(), [free_port(), free_port()]);
        let [producer_ops, worker_ops] = ops;
        let text = format!(
            "[redis]\nurl = \"{}\"\n[producer]\nlisten = \"127.0.0.1:{api}\"\nops_listen = \"127.0.0.1:{producer_ops}\"\noperator_listen = \"127.0.0.1:0\"\nmax_connections = {CONNECTIONS}\n\
             [worker]\nops_listen = \"127.0.0.1:{worker_ops}\"\nconcurrency = {concurrency}\n\
             [queues.{QUEUE}]\ntarget = \"{target}\"\n",
            redis.url(),
        );
        fs::write(&settings, text).expect("a settings file");
        let producer = start(env!("CARGO_BIN_EXE_it-producer"), &settings);
        let queue = QueueName::try_from(QUEUE).expect("the name of a queue");
        let stage = Self {
            redis,
            http: Http::new(),
            submit_url: format!("http://127.0.0.1:{api}{SUBMIT_PATH}"),
            keys: ShardKeys::new(&queue, 0),
            settings,
            api,
            ops,
            producer,
            _folder: folder,
        };
        stage.ready(producer_ops).await;
        stage
    }

    /// The process of the producer.
    pub(crate) fn producer_pid(&self) -> u32 {
        self.producer.pid()
    }

    /// Where the API listens.
    pub(crate) fn api(&self) -> u16 {
        self.api
    }

    /// Starts a worker, and waits until it is ready.
    pub(crate) async fn worker(&self) -> Process {
        let worker = self.worker_at_once();
        self.ready(self.ops[1]).await;
        worker
    }

    /// Starts a worker.
    pub(crate) fn worker_at_once(&self) -> Process {
        start(env!("CARGO_BIN_EXE_it-worker"), &self.settings)
    }

    /// Ends a worker in order.
    pub(crate) async fn end(&self, mut worker: Process) {
        assert!(worker.terminate().await.success(), "{}", worker.output());
    }

    /// How many requests wait or are leased.
    pub(crate) async fn unfinished(&self) -> i64 {
        self.size("ZCARD", &self.keys.pending).await
            + self.size("ZCARD", &self.keys.delayed).await
            + self.size("ZCARD", &self.keys.leased).await
    }

    /// How many records there are.
    pub(crate) async fn records(&self) -> i64 {
        self.size("HLEN", &self.keys.result).await
    }

    async fn size(&self, command: &str, key: &str) -> i64 {
        self.redis.command(&[command, key]).await.int().expect("the size of a key")
    }

    async fn ready(&self, ops: u16) {
        let url = format!("http://127.0.0.1:{ops}/readyz");
        eventually("the role is ready", SOON, async || {
            let asked = self.http.try_request("GET", &url, &[], "").await?;
            if asked.status == 200 { Ok(()) } else { Err(asked.text().to_owned()) }
        })
        .await;
    }
}

fn start(program: &str, settings: &PathBuf) -> Process {
    Process::start(program, &[&PathBuf::from("--config"), settings], &[])
}
