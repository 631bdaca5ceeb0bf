//! A whole Holdfast of real processes: producer, workers, reclaimers over a Redis and a stand-in of the test's own.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::script;
use holdfast_testkit::http::Answer;
use holdfast_testkit::stand_in::{Arrival, Options};
use holdfast_testkit::{Http, Process, Proxy, RedisServer, StandIn, eventually, free_port};
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for what must come.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The lease of the fleet's workers, unless a test says otherwise.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// How the processes of a test are set up: lines of the settings file.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Where Redis is; none: the fleet's own.
    pub(crate) redis_url: Option<String>,
    /// Further lines under `[redis]`; `{role}` stands for the name of the role.
    pub(crate) redis: String,
    /// Further lines under `[producer]`.
    pub(crate) producer: String,
    /// Lines under `[worker]`.
    pub(crate) worker: String,
    /// Lines under `[reclaimer]`.
    pub(crate) reclaimer: String,
    /// Further lines under `[queues.q]`.
    pub(crate) queue: String,
    /// Whole further sections; `{gateway}` stands for the URL of the gateway.
    pub(crate) more: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            redis_url: None,
            redis: String::new(),
            producer: String::new(),
            worker: "concurrency = 64\nlease = \"3s\"\nrenew = \"1s\"\ndrain = \"10s\"".to_owned(),
            reclaimer: "every = \"250ms\"".to_owned(),
            queue: String::new(),
            more: String::new(),
        }
    }
}

impl Setup {
    /// For a test that is about no outage: a machine that is busy for seconds makes none.
    pub(crate) fn patient() -> Self {
        Self { redis: "command_timeout = \"20s\"".to_owned(), ..Self::default() }
    }
}

/// The servers and the settings that the processes share.
pub(crate) struct Fleet {
    /// Its Redis.
    pub(crate) redis: RedisServer,
    /// Its gateway.
    pub(crate) gateway: StandIn,
    /// A client for its APIs.
    pub(crate) http: Http,
    setup: Setup,
    folder: TempDir,
    api: u16,
    producers: std::cell::RefCell<Vec<Role>>,
}

/// A role that runs, and where its ops port is.
pub(crate) struct Role {
    /// The process.
    pub(crate) process: Process,
    /// Its ops port.
    pub(crate) ops: u16,
}

impl Fleet {
    /// Over a Redis behind a proxy, which knows all scripts: otherwise a reply that is lost might be its "no such script".
    pub(crate) async fn behind_proxy() -> (Self, Proxy) {
        let redis = RedisServer::start().await;
        for script in script::all() {
            redis.command(&["SCRIPT", "LOAD", &script.text]).await;
        }
        let proxy = Proxy::start(redis.port()).await;
        let setup = Setup {
            redis_url: Some(proxy.url()),
            redis: "command_timeout = \"1s\"".to_owned(),
            ..Setup::default()
        };
        (Self::with(setup, redis).await, proxy)
    }

    /// Redis, stand-in and a producer that is ready.
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default(), RedisServer::start().await).await
    }

    /// The same with other settings.
    pub(crate) async fn with(setup: Setup, redis: RedisServer) -> Self {
        let fleet = Self::without_producer(setup, redis).await;
        fleet.start_producer().await;
        fleet
    }

    /// The same, with no process running.
    pub(crate) async fn without_producer(setup: Setup, redis: RedisServer) -> Self {
        let gateway = StandIn::start(Options::default()).await.expect("a stand-in");
        let folder = tempfile::tempdir().expect("a folder");
        let (http, api) = (Http::new(), free_port());
        Self { redis, gateway, http, setup, folder, api, producers: Default::default() }
    }

    /// Where the roles find their Redis.
    pub(crate) fn redis_url(&self) -> &str {
        self.setup.redis_url.as_deref().unwrap_or(self.redis.url())
    }

    /// Starts a producer, and waits until it is ready.
    pub(crate) async fn start_producer(&self) {
        let role = self.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
        self.ready(role.ops).await;
        self.producers.borrow_mut().push(role);
    }

    /// What the producers have printed so far.
    pub(crate) fn producers_output(&self) -> String {
        self.producers.borrow().iter().map(|role| role.process.output()).collect()
    }

    /// The ops ports of the producers.
    pub(crate) fn producers_ops(&self) -> Vec<u16> {
        self.producers.borrow().iter().map(|role| role.ops).collect()
    }

    /// Where the producer takes operators' calls; it must log what the producer says.
    pub(crate) async fn operators(&self) -> String {
        eventually("the producer tells where operators' calls are", SOON, async || {
            let output = self.producers_output();
            let events = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut open = events.filter(|event| event["message"] == "operators' calls open");
            let event = open.next().ok_or_else(|| output.clone())?;
            Ok::<_, String>(format!("http://{}", event["address"].as_str().expect("an address")))
        })
        .await
    }

    /// Starts a worker.
    pub(crate) fn worker(&self) -> Role {
        self.worker_with(&[])
    }

    /// Starts a worker with more of the environment.
    pub(crate) fn worker_with(&self, environment: &[(&str, &str)]) -> Role {
        self.role("worker", env!("CARGO_BIN_EXE_it-worker"), environment)
    }

    /// Starts a reclaimer.
    pub(crate) fn reclaimer(&self) -> Role {
        self.role("reclaimer", env!("CARGO_BIN_EXE_it-reclaimer"), &[])
    }

    /// Starts the program of a role with a settings file of its own.
    pub(crate) fn role(&self, name: &str, program: &str, environment: &[(&str, &str)]) -> Role {
        let ops = free_port();
        let path = self.folder.path().join(format!("{name}-{ops}.toml"));
        fs::write(&path, self.settings(name, ops)).expect("a settings file");
        let arguments = [PathBuf::from("--config"), path];
        Role { process: Process::start(program, &arguments, environment), ops }
    }

    /// The settings of a role whose ops port is `ops`.
    pub(crate) fn settings(&self, role: &str, ops: u16) -> String {
        let Setup { redis, producer, worker, reclaimer, queue, more, .. } = &self.setup;
        let (url, target) = (self.redis_url(), self.gateway.url());
        let (redis, more) = (redis.replace("{role}", role), more.replace("{gateway}", &target));
        let port = |name| {
            if name == role { format!("ops_listen = \"127.0.0.1:{ops}\"\n") } else { String::new() }
        };
        // Any free one, unless a test says which.
        let operators = match producer.contains("operator_listen") {
            true => "",
            false => "operator_listen = \"127.0.0.1:0\"\n",
        };
        format!(
            "[redis]\nurl = \"{url}\"\n{redis}\n[producer]\nlisten = \"127.0.0.1:{}\"\n{operators}{}{producer}\n\
             [worker]\n{}{worker}\n[reclaimer]\n{}{reclaimer}\n[queues.q]\ntarget = \"{target}\"\n{queue}\n{more}\n",
            self.api,
            port("producer"),
            port("worker"),
            port("reclaimer"),
        )
    }

    /// Waits until the role behind an ops port is ready.
    pub(crate) async fn ready(&self, ops: u16) {
        eventually("the role is ready", SOON, async || {
            let asked = self
                .http
                .try_request("GET", &format!("http://127.0.0.1:{ops}/readyz"), &[], "")
                .await;
            match asked {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(format!("{}: {}", answer.status, answer.text())),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    /// The URL of a path of the API.
    pub(crate) fn api(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.api)
    }

    /// Calls the API.
    pub(crate) async fn call(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let headers: &[(&str, &str)] =
            if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
        self.http.request(method, &self.api(path), headers, Bytes::copy_from_slice(body)).await
    }

    /// Submits a payload under an id to queue `q`, with ten minutes of time; it must be accepted.
    pub(crate) async fn submit(&self, id: &str, payload: &str) {
        let answer = self
            .post(&format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{payload}}}"))
            .await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    /// Submits an item as it stands.
    pub(crate) async fn post(&self, item: &str) -> Answer {
        self.call("POST", "/v1/queues/q/requests", item.as_bytes()).await
    }

    /// The status of a request.
    pub(crate) async fn status(&self, id: &str) -> Value {
        let answer = self.call("GET", &format!("/v1/queues/q/requests/{id}"), b"").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).expect("a status in JSON")
    }

    /// The result of a request, as it stands now.
    pub(crate) async fn result_now(&self, id: &str) -> Answer {
        self.call("GET", &format!("/v1/queues/q/requests/{id}/result"), b"").await
    }

    /// Waits for the end of a request: its outcome and the answer.
    pub(crate) async fn result(&self, id: &str) -> (String, Answer) {
        self.result_within(id, SOON).await
    }

    /// The same with another limit.
    pub(crate) async fn result_within(&self, id: &str, limit: Duration) -> (String, Answer) {
        let path = format!("/v1/queues/q/requests/{id}/result?wait=5");
        eventually(&format!("{id} ends"), limit, async || {
            let headers: &[(&str, &str)] = &[];
            let answer = self.http.try_request("GET", &self.api(&path), headers, "").await;
            let answer = answer.map_err(|error| error.to_string())?;
            match answer.header("holdfast-outcome") {
                Some(outcome) if answer.status == 200 => Ok((outcome.to_owned(), answer)),
                _ => Err(format!("{}: {}", answer.status, answer.text())),
            }
        })
        .await
    }

    /// How many members or fields a key of shard 0 has.
    pub(crate) async fn count(&self, key: &str) -> i64 {
        let key = format!("hf1:{{q/0}}:{key}");
        let command = if matches!(key.rsplit(':').next(), Some("request" | "ticket" | "result")) {
            "HLEN"
        } else {
            "ZCARD"
        };
        match self.redis.command(&[command, &key]).await {
            holdfast_testkit::Value::Int(count) => count,
            other => panic!("{command} {key}: {other:?}"),
        }
    }

    /// Waits until a key of shard 0 holds so many.
    pub(crate) async fn wait_for_count(&self, key: &str, wanted: i64, limit: Duration) {
        eventually(&format!("{key} holds {wanted}"), limit, async || match self.count(key).await {
            count if count == wanted => Ok(()),
            count => Err(format!("it holds {count}")),
        })
        .await
    }

    /// The sum of a metric over all its labels that contain `label`.
    pub(crate) async fn metric(&self, role: &Role, name: &str, label: &str) -> f64 {
        let answer = self
            .http
            .request("GET", &format!("http://127.0.0.1:{}/metrics", role.ops), &[], "")
            .await;
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            (labels.contains(label) && rest.starts_with(['{', ' ']))
                .then(|| value.parse::<f64>().ok())?
        };
        answer.text().lines().filter_map(value).sum()
    }

    /// Arrivals at the gateway whose body contains `mark`.
    pub(crate) fn arrivals_of(&self, mark: &str) -> Vec<Arrival> {
        let is_it = |arrival: &Arrival| String::from_utf8_lossy(&arrival.body).contains(mark);
        self.gateway.arrivals().into_iter().filter(is_it).collect()
    }
}
