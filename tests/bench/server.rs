//! What a Redis has spent: processor time, bytes of its append-only file, memory, commands.

use std::collections::BTreeMap;

use holdfast_testkit::{RedisOptions, RedisServer};

/// What it had spent at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// Processor time of its main thread, in µs: what the kernel counts, so that waiting costs nothing.
    pub(crate) cpu: f64,
    /// Bytes of the append-only file; servers of a bench never rewrite it.
    pub(crate) aof: f64,
    /// Bytes of memory that its data takes.
    pub(crate) memory: f64,
}

impl Spent {
    pub(crate) async fn by(redis: &RedisServer) -> Self {
        let info = info(redis, "everything").await;
        let number = |name: &str| {
            let text = info.get(name).unwrap_or_else(|| panic!("INFO tells {name}"));
            text.parse::<f64>().unwrap_or_else(|_| panic!("{name} is a number"))
        };
        let cpu = number("used_cpu_user_main_thread") + number("used_cpu_sys_main_thread");
        Self { cpu: cpu * 1e6, aof: number("aof_current_size"), memory: number("used_memory") }
    }

    /// What was spent since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            aof: self.aof - before.aof,
            memory: self.memory - before.memory,
        }
    }
}

/// A server whose file is never rewritten and whose slow log keeps every command over 5 ms.
pub(crate) async fn start(change: impl FnOnce(&mut RedisOptions)) -> RedisServer {
    RedisServer::with(|options| {
        let more = ["--auto-aof-rewrite-percentage", "0", "--slowlog-log-slower-than", "5000"];
        options.args.extend(more.map(Into::into));
        options.args.extend(["--slowlog-max-len", "1000"].map(Into::into));
        change(options);
    })
    .await
}

/// How long the longest command that the slow log keeps took, in ms; 0 if none took 5.
pub(crate) async fn longest(redis: &RedisServer) -> f64 {
    let log = redis.command(&["SLOWLOG", "GET", "1000"]).await;
    let entries = log.array().expect("a list of entries");
    let times = entries.iter().filter_map(|entry| entry.array()?.get(2)?.int());
    times.max().map_or(0.0, |us| us as f64 / 1000.0)
}

/// A section of INFO, by its names.
async fn info(redis: &RedisServer, section: &str) -> BTreeMap<String, String> {
    let answer = redis.command(&["INFO", section]).await;
    let text = answer.text().expect("INFO is text");
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}
