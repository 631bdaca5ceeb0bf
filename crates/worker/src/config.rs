//! What a worker takes from the settings: its own section, and the queues it serves.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use holdfast_core::model::QueueName;
use holdfast_runtime::settings::{
    GRACE, GRACE_RESERVE, HttpVersion, QueueSettings, RedisSettings, TracesSettings, WorkerSettings,
};
use holdfast_runtime::{Problems, Settings};

use crate::gateway::{Http, SILENCE, Target};
use crate::queue::QueueConfig;
use crate::renewer::RenewOn;
use crate::slots::Share;

/// The settings of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where Redis is.
    pub redis: RedisSettings,
    /// Where health and metrics are.
    pub ops_listen: SocketAddr,
    /// What the worker calls itself, for eyes only.
    pub(crate) name: String,
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) renew_on: RenewOn,
    /// How long running calls may go on when the process is to end.
    pub(crate) drain: Duration,
    /// How long what the drain did not finish may take to be handed back.
    pub(crate) hand_back: Duration,
    /// Where traces go.
    pub(crate) traces: TracesSettings,
    /// Those it serves.
    pub(crate) queues: Vec<QueueConfig>,
    /// All of them, as they are declared to others.
    pub(crate) declared: BTreeMap<QueueName, QueueSettings>,
}

impl Config {
    /// Takes what a worker needs from the checked settings.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = settings.redis_files();
        let WorkerSettings { ops_listen, concurrency, lease, renew, drain, queues, name } =
            settings.worker.clone();
        let serves = |name: &QueueName| queues.as_ref().is_none_or(|only| only.contains(name));
        let served = settings.queues.iter().filter(|(name, _)| serves(name));
        served.clone().for_each(|(name, _)| problems.extend(settings.target_files(name)));
        let queue = |(name, queue)| self::queue(name, queue, concurrency, &mut problems);
        let queues: Vec<_> = served.filter_map(queue).collect();
        if settings.queues.is_empty() {
            problems.refuse("queues", "must declare a queue: a worker without one has no work");
        }
        problems.or(Self {
            redis: settings.redis.clone(),
            ops_listen,
            name: name.unwrap_or_else(own_name),
            lease,
            renew,
            renew_on: RenewOn::default(),
            drain,
            hand_back: hand_back(drain),
            traces: settings.traces.clone(),
            queues,
            declared: settings.queues.clone(),
        })
    }

    /// The same, with leases renewed there. It is no setting: a process wants the default.
    pub fn renewing_on(self, renew_on: RenewOn) -> Self {
        Self { renew_on, ..self }
    }
}

/// What the grace period leaves after the drain for handing back, with time to go.
fn hand_back(drain: Duration) -> Duration {
    let last = GRACE_RESERVE * 2 / 3;
    GRACE.saturating_sub(drain).saturating_sub(last)
}

/// Host and process, where the settings give no name.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "worker" } else { host.trim() };
    format!("{host}-{}", std::process::id())
}

/// The parts of a queue's settings that a worker uses. What was checked before can fail here only
/// if the checks and the types part ways, and that is told like any other fault.
fn queue(
    name: &QueueName,
    settings: &QueueSettings,
    slots: usize,
    problems: &mut Problems,
) -> Option<QueueConfig> {
    let at = |field: &str| format!("queues.{name}.{field}");
    let base = settings.target.to_string().parse();
    let max_attempts = settings.max_attempts.map(u32::try_from).transpose();
    let answer_limit = usize::try_from(settings.answer_limit);
    problems.check(base.is_ok(), &at("target"), "(hidden)", "must be a base URL");
    problems.check(max_attempts.is_ok(), &at("max_attempts"), "(a number)", "is too large");
    problems.check(answer_limit.is_ok(), &at("answer_limit"), "(a size)", "is too large");
    let target = Target {
        base: base.ok()?,
        credentials: settings.credentials.clone(),
        http: http(settings.http),
        streams: settings.streams,
        connect_timeout: settings.times.connect_timeout,
        stall_timeout: settings.times.stall_timeout,
        attempt_timeout: settings.times.attempt_timeout,
        silence: SILENCE,
        answer_limit: answer_limit.ok()?,
    };
    Some(QueueConfig {
        name: name.clone(),
        shards: settings.policy().shards,
        target,
        path: settings.path.as_str().to_owned(),
        allowed: settings.allowed.clone(),
        max_attempts: max_attempts.ok()?,
        share: Share { slots: settings.concurrency.unwrap_or(slots), breaker: settings.breaker },
    })
}

fn http(version: HttpVersion) -> Http {
    match version {
        HttpVersion::Auto => Http::Auto,
        HttpVersion::One => Http::One,
        HttpVersion::Two => Http::Two,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_runtime::Environment;

    use super::*;

    fn read(text: &str) -> Result<Config, Problems> {
        let environment = Environment::new(std::iter::empty::<(String, String)>());
        Config::read(&Settings::load(text, &environment).unwrap())
    }

    #[test]
    fn a_worker_serves_the_queues_it_is_told_to_and_all_by_default() {
        let queues = "[queues.a]\ntarget = \"http://h:1\"\n[queues.b]\ntarget = \"http://h:2\"\n";
        let names = |text: &str| -> Vec<String> {
            read(text).unwrap().queues.iter().map(|queue| queue.name.to_string()).collect()
        };
        assert_eq!(names(queues), ["a", "b"]);
        assert_eq!(names(&format!("[worker]\nqueues = [\"b\"]\n{queues}")), ["b"]);
    }

    #[test]
    fn a_worker_without_a_queue_is_refused() {
        assert!(read("").unwrap_err().to_string().starts_with("queues must declare a queue"));
    }

    #[test]
    fn the_settings_of_a_queue_arrive() {
        let config = read(
            "[worker]\nname = \"w1\"\nconcurrency = 3\nlease = \"6s\"\nrenew = \"2s\"\n\
            [reclaimer]\nevery = \"1s\"\n\
            [queues.q]\ntarget = \"https://h/base\"\npath = \"/v1/x\"\nhttp = \"1\"\nshards = 4\n\
            max_attempts = 7\nconcurrency = 2\nanswer_limit = \"1MiB\"\nstall_timeout = \"7s\"\n",
        )
        .unwrap();
        assert_eq!(config.name, "w1");
        assert_eq!((config.lease, config.renew), (Duration::from_secs(6), Duration::from_secs(2)));
        let queue = &config.queues[0];
        assert_eq!(
            (queue.shards.get(), queue.max_attempts, queue.share),
            (4, Some(7), Share { slots: 2, breaker: true })
        );
        assert_eq!(queue.target.base, "https://h/base");
        assert_eq!((queue.path.as_str(), queue.target.http), ("/v1/x", Http::One));
        assert_eq!(queue.target.answer_limit, 1024 * 1024);
        assert_eq!(queue.target.stall_timeout, Duration::from_secs(7));
    }

    #[test]
    fn drain_and_hand_back_end_inside_the_grace_period() {
        for drain in [Duration::ZERO, Duration::from_secs(25), GRACE - GRACE_RESERVE] {
            let rest = GRACE - drain - hand_back(drain);
            // The frame keeps a second for itself, and what comes before it some time for delays.
            assert!(rest >= Duration::from_millis(1_300), "{rest:?}");
            assert!(hand_back(drain) > Duration::from_millis(500));
        }
    }

    #[test]
    fn each_queue_has_as_many_slots_as_the_worker_says_unless_it_says_otherwise() {
        let config = read(
            "[worker]\nconcurrency = 3\n[queues.a]\ntarget = \"http://h:1\"\nbreaker = false\n\
            [queues.b]\ntarget = \"http://h:2\"\nconcurrency = 9\n",
        );
        let shares: Vec<Share> = config.unwrap().queues.iter().map(|queue| queue.share).collect();
        let share = |slots, breaker| Share { slots, breaker };
        assert_eq!(shares, [share(3, false), share(9, true)]);
    }
}
