//! What a bench ran on. Figures without it say nothing.

use std::fs;

use holdfast_testkit::{Process, RedisServer};
use serde::Serialize;

use crate::server;

/// Told where the system does not say.
const UNKNOWN: &str = "unknown";

/// The machine and the programs on it.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    system: String,
    holdfast: &'static str,
    redis: String,
    rustc: String,
}

impl Machine {
    /// With the server that a part starts when nothing else is said.
    pub(crate) async fn here() -> Self {
        Self::look(&server::start(|_| {}).await).await
    }

    pub(crate) async fn look(redis: &RedisServer) -> Self {
        let rustc = Process::run("rustc", &["--version"], &[]).await.stdout;
        Self {
            cpu: cpu().unwrap_or_else(|| UNKNOWN.to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            system: system().unwrap_or_else(|| UNKNOWN.to_owned()),
            holdfast: env!("CARGO_PKG_VERSION"),
            redis: server(redis).await.unwrap_or_else(|| UNKNOWN.to_owned()),
            rustc: rustc.split_whitespace().nth(1).unwrap_or(UNKNOWN).to_owned(),
        }
    }

    /// In two lines.
    pub(crate) fn told(&self) -> String {
        let Self { cpu, cores, system, holdfast, redis, rustc } = self;
        format!(
            "{cpu}, {cores} cores, {system}\nholdfast {holdfast}, {redis}, rustc {rustc}, release build"
        )
    }
}

/// How many processes wanted to run, on average over the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn system() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("Linux {}", release.trim()))
}

/// Name and version of the server; a Valkey also claims a version of Redis, for old clients.
async fn server(redis: &RedisServer) -> Option<String> {
    let info = redis.command(&["INFO", "server"]).await;
    let text = info.text()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match value("valkey_version:") {
        Some(version) => Some(format!("Valkey {version}")),
        None => Some(format!("Redis {}", value("redis_version:")?)),
    }
}
