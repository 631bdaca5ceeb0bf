//! What a Redis has spent: processor time, bytes of its append-only file, memory, commands.

use std::collections::BTreeMap;

use holdfast_core::script;
use holdfast_testkit::{RedisOptions, RedisServer, Value};

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

/// A script that the slow log keeps.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    /// How long it took, in ms.
    pub(crate) ms: f64,
    /// Which one it was.
    pub(crate) script: String,
}

/// Keeps every command that takes so many µs from now on, and forgets what was kept before.
pub(crate) async fn log_from(redis: &RedisServer, us: u64) {
    let us = us.to_string();
    let settings = ["CONFIG", "SET", "slowlog-log-slower-than", &us, "slowlog-max-len", "100000"];
    for command in [&settings[..], &["SLOWLOG", "RESET"]] {
        assert_eq!(redis.command(command).await.text(), Some("OK"));
    }
}

/// The scripts that the slow log keeps, the longest first.
pub(crate) async fn slow(redis: &RedisServer) -> Vec<Slow> {
    let names: BTreeMap<String, &str> =
        script::all().into_iter().map(|script| (script.sha1, script.name)).collect();
    let log = redis.command(&["SLOWLOG", "GET", "-1"]).await;
    let entry = |entry: &Value| {
        let parts = entry.array()?;
        let words = parts.get(3)?.array()?;
        let is_script = words.first()?.text()?.eq_ignore_ascii_case("EVALSHA");
        let sha1 = words.get(1).filter(|_| is_script)?.text()?;
        let script = names.get(sha1).map_or(sha1, |name| name).to_owned();
        Some(Slow { ms: parts.get(2)?.int()? as f64 / 1000.0, script })
    };
    let mut all: Vec<Slow> =
        log.array().expect("a list of entries").iter().filter_map(entry).collect();
    all.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    all
}

/// A section of INFO, by its names.
async fn info(redis: &RedisServer, section: &str) -> BTreeMap<String, String> {
    let answer = redis.command(&["INFO", section]).await;
    let text = answer.text().expect("INFO is text");
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}
