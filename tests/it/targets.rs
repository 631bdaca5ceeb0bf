//! Several targets in one worker: what one of them does is nobody else's trouble, and one that refuses is spared.

use std::num::NonZeroU32;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Digest, Draft, Envelope, Generation, Identity, QueueName, Request};
use holdfast_core::redis::Options;
use holdfast_core::script::{Submission, Submit, SubmitReply, registered_workers};
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Process, RedisServer, eventually};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fleet::{Fleet, Role, SOON, Setup};

/// How long a call takes where it is answered: so long that slots bound the rate, and not the machine.
const CALL: Duration = Duration::from_millis(400);

/// Slots of a queue.
const SLOTS: usize = 16;

fn setup(queue: &str, more: String) -> Setup {
    let worker = format!("concurrency = {SLOTS}\nlease = \"3s\"\nrenew = \"1s\"\ndrain = \"1s\"");
    Setup { worker, queue: queue.to_owned(), more, ..Setup::default() }
}

/// A fleet whose gateway takes its time, and a worker.
async fn fleet(setup: Setup) -> (Fleet, Role) {
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    fleet.gateway.script(vec![Rule::new().delay(CALL)]).expect("a rule");
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    (fleet, worker)
}

/// Puts many requests into a queue, faster than the API could; each has so much time.
async fn backlog(fleet: &Fleet, queue: &str, prefix: &str, numbers: Range<usize>, time: Duration) {
    let redis = Redis::open(Options::new(fleet.redis.url())).expect("a client");
    let shard = ShardKeys::new(&QueueName::try_from(queue).expect("a name"), 0);
    let deadline = unix_ms() + u64::try_from(time.as_millis()).expect("a time");
    let item = |number: usize| {
        let id = format!("{prefix}-{number}");
        let tenant = "default".try_into().expect("a tenant");
        let identity = Identity { tenant, id: id.as_str().try_into().expect("an id") };
        let body = Bytes::from(format!("{{\"content\":\"<{prefix}>\"}}"));
        let draft = Draft {
            generation: Generation::random(),
            digest: Digest::of(&identity, &body),
            deadline,
            not_before: 0,
            body_size: u32::try_from(body.len()).expect("a size"),
        };
        let key = identity.place(NonZeroU32::MIN).key;
        let envelope = Envelope::default();
        let request = Request { identity, lane: String::new(), envelope, body };
        Submission::new(key, &draft, &request).expect("a request")
    };
    for start in numbers.clone().step_by(64) {
        let items: Vec<_> = (start..numbers.end.min(start + 64)).map(item).collect();
        let replies = Submit { shard: &shard, items: &items }.run(&redis).await.expect("accepted");
        assert!(replies.iter().all(|reply| matches!(reply, SubmitReply::Accepted(_))));
    }
}

fn unix_ms() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "deadlines of callers are Unix times")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.expect("a clock after 1970").as_millis()).expect("a time")
}

/// Lets a time pass: what happens meanwhile is what the test is about.
async fn pass(time: Duration) {
    let since = Instant::now();
    let over = async || if since.elapsed() >= time { Ok(()) } else { Err("not yet") };
    eventually("time passes", time + SOON, over).await;
}

/// Arrivals a second from now on.
async fn rate_over(fleet: &Fleet, time: Duration) -> f64 {
    let (before, since) = (fleet.gateway.counts().arrived, Instant::now());
    pass(time).await;
    (fleet.gateway.counts().arrived - before) as f64 / since.elapsed().as_secs_f64()
}

/// Waits until a metric of the worker is as wanted.
async fn shows(fleet: &Fleet, role: &Role, metric: &str, label: &str, wanted: fn(f64) -> bool) {
    eventually(&format!("{metric} of {label} is as wanted"), SOON, async || {
        let value = fleet.metric(role, metric, label).await;
        if wanted(value) { Ok(()) } else { Err(value) }
    })
    .await;
}

/// Where nobody is at home.
enum Dark {
    /// Packets are dropped: a backlog that is full.
    NeverAccepts { url: String, _listener: TcpListener, _full: Vec<TcpStream> },
    /// Calls are taken, and nothing comes back.
    NeverAnswers { url: String, _accepting: JoinSet<()> },
}

impl Dark {
    async fn never_accepts() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(1).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut full = Vec::new();
        while let Ok(stream) =
            timeout(Duration::from_millis(500), TcpStream::connect(address)).await
        {
            full.push(stream.expect("a place in the backlog"));
        }
        Self::NeverAccepts { url: format!("http://{address}"), _listener: listener, _full: full }
    }

    async fn never_answers() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut taken = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                taken.push(stream);
            }
        });
        Self::NeverAnswers { url, _accepting: accepting }
    }

    fn url(&self) -> &str {
        match self {
            Self::NeverAccepts { url, .. } | Self::NeverAnswers { url, .. } => url,
        }
    }
}

/// The rate of a healthy queue alone, and beside one whose target is dark, each over the same time.
async fn beside(dark: Dark) {
    let more = format!("[queues.dark]\ntarget = \"{}\"", dark.url());
    let (fleet, worker) = fleet(setup("", more)).await;
    let (settled, measured) = (Duration::from_secs(1), Duration::from_secs(4));
    // More than the slots can do in all that time.
    let enough = SLOTS * 5 * 25;
    backlog(&fleet, "q", "healthy", 0..enough, SOON * 20).await;
    pass(settled).await;
    let alone = rate_over(&fleet, measured).await;
    let slots = SLOTS as f64 / CALL.as_secs_f64();
    assert!(alone > slots / 2.0, "{alone} a second: not the slots are what bounds it");

    backlog(&fleet, "dark", "dark", 0..500, SOON * 20).await;
    shows(&fleet, &worker, "holdfast_in_flight", "dark", |calls| calls >= 1.0).await;
    // What the dark one costs, it costs all the time; what else runs on this machine costs something now and then.
    let mut beside = rate_over(&fleet, measured).await;
    for _ in 0..2 {
        if beside < 0.9 * alone {
            beside = beside.max(rate_over(&fleet, measured).await);
        }
    }
    assert!(fleet.metric(&worker, "holdfast_in_flight", "dark").await <= SLOTS as f64);
    assert!(beside >= 0.9 * alone, "{alone:.0} a second alone, {beside:.0} beside a dark target");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_never_accepts_costs_its_neighbour_nothing() {
    beside(Dark::never_accepts().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_never_answers_costs_its_neighbour_nothing() {
    beside(Dark::never_answers().await).await;
}

/// What the registry says of the breaker of queue `q`.
async fn told_of_breaker(fleet: &Fleet) -> serde_json::Value {
    let redis = Redis::open(Options::new(fleet.redis.url())).expect("a client");
    let rows = registered_workers(&redis).await.expect("the registry");
    let row: serde_json::Value = serde_json::from_str(&rows[0].text).expect("a row in JSON");
    row["breakers"]["q"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_429_meets_few_calls_and_the_full_rate_is_soon_back() {
    let (fleet, worker) = fleet(setup("max_attempts = 3", String::new())).await;
    backlog(&fleet, "q", "calm", 0..5000, SOON * 20).await;
    pass(Duration::from_secs(1)).await;
    let before = rate_over(&fleet, Duration::from_secs(3)).await;

    fleet.gateway.script(vec![Rule::new().status(429)]).expect("a rule");
    let storm = rate_over(&fleet, Duration::from_secs(12)).await;
    assert!(storm * 10.0 <= before, "{before:.1} calls a second before, {storm:.1} in the storm");
    assert_eq!(fleet.metric(&worker, "holdfast_breaker_state", "q").await, 2.0);
    assert_eq!(fleet.metric(&worker, "holdfast_gate_allowed", "q").await, 0.0);
    assert!(fleet.metric(&worker, "holdfast_gate_cuts_total", "reason=\"429\"").await >= 1.0);
    let told = told_of_breaker(&fleet).await;
    assert_eq!((&told["state"], &told["reason"]), (&"open".into(), &"429".into()));
    let url = fleet.redis.url();
    let why = ["why", "calm-4999", "--queue", "q", "--redis", url, "--output", "json"];
    let why = Process::run(env!("CARGO_BIN_EXE_it-holdfastctl"), &why, &[]).await;
    let why: serde_json::Value = serde_json::from_str(&why.stdout).expect("a word of why");
    assert_eq!(why["hold"], "breaker", "{why}");

    fleet.gateway.script(vec![Rule::new().delay(CALL)]).expect("a rule");
    let over = Instant::now();
    let mut rates = Vec::new();
    while rates.last().is_none_or(|rate| *rate < 0.9 * before) {
        assert!(over.elapsed() < Duration::from_secs(20), "{before:.1} before, {rates:.1?} after");
        rates.push(rate_over(&fleet, Duration::from_secs(1)).await);
    }
    shows(&fleet, &worker, "holdfast_breaker_state", "q", |state| state == 0.0).await;
    eventually("the registry says nothing of it", SOON, async || {
        let told = told_of_breaker(&fleet).await;
        if told.is_null() { Ok(()) } else { Err(told) }
    })
    .await;
    // Only what goes out as a probe, and again when it is due, can have used up its three attempts.
    let refused = fleet.metric(&worker, "holdfast_dispatch_seconds_count", "4xx").await;
    let retried = fleet.metric(&worker, "holdfast_retries_total", "4xx").await;
    assert!(refused - retried <= 5.0, "{refused} refusals, {retried} retries");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_away_is_probed_and_everything_is_answered_once_it_is_back() {
    let (mut fleet, worker) = fleet(setup("max_attempts = 2", String::new())).await;
    fleet.gateway.stop().await;
    backlog(&fleet, "q", "away", 0..300, SOON * 20).await;
    shows(&fleet, &worker, "holdfast_breaker_state", "q", |state| state == 2.0).await;
    pass(Duration::from_secs(5)).await;
    let tries = fleet.metric(&worker, "holdfast_dispatch_seconds_count", "connect").await;
    assert!(tries < 2.0 * SLOTS as f64 + 20.0, "{tries} tries");

    fleet.gateway.start_again().await.expect("its address");
    eventually("all are answered", SOON, async || {
        assert_eq!(fleet.count("dead").await, 0, "a probe used up the attempts of its request");
        let finished = fleet.count("finished").await;
        if finished == 300 { Ok(()) } else { Err(finished) }
    })
    .await;
    shows(&fleet, &worker, "holdfast_breaker_state", "q", |state| state == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_leaves_its_calls_unanswered_is_probed_until_it_answers() {
    let (fleet, worker) = fleet(setup("attempt_timeout = \"1s\"", String::new())).await;
    fleet.gateway.hold(true);
    backlog(&fleet, "q", "mute", 0..200, SOON * 20).await;
    shows(&fleet, &worker, "holdfast_breaker_state", "q", |state| state == 2.0).await;
    let cuts =
        fleet.metric(&worker, "holdfast_gate_cuts_total", "reason=\"attempt-timeout\"").await;
    assert_eq!(cuts, 1.0);
    let before = fleet.gateway.counts().arrived;
    pass(Duration::from_secs(5)).await;
    let probes = fleet.gateway.counts().arrived - before;
    assert!((1..=5).contains(&probes), "{probes} calls");

    fleet.gateway.hold(false);
    eventually("all are answered", SOON, async || match fleet.count("finished").await {
        200 => Ok(()),
        finished => Err(finished),
    })
    .await;
    shows(&fleet, &worker, "holdfast_breaker_state", "q", |state| state == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_refuses_every_other_call_still_answers_what_it_can() {
    let (fleet, _worker) = fleet(setup("", String::new())).await;
    let mut every_other = Rule::new().status(503);
    every_other.when.every = Some(2);
    fleet.gateway.script(vec![every_other, Rule::new()]).expect("rules");
    backlog(&fleet, "q", "half", 0..200, SOON * 20).await;
    // The last ones may have met refusals only, and wait for long.
    eventually("nearly all are answered", SOON, async || match fleet.count("finished").await {
        finished if finished >= 180 => Ok(()),
        finished => Err(finished),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_end_requests_while_their_target_refuses() {
    let (fleet, worker) = fleet(setup("", String::new())).await;
    let _reclaimer = fleet.reclaimer();
    // It asks for longer than anybody has.
    let refuses = Rule::new().status(503).header("retry-after", "60");
    fleet.gateway.script(vec![refuses]).expect("a rule");
    backlog(&fleet, "q", "late", 0..100, Duration::from_secs(4)).await;
    shows(&fleet, &worker, "holdfast_breaker_state", "q", |state| state == 2.0).await;
    // Long before the minute that it asks for.
    fleet.wait_for_count("finished", 100, SOON).await;
    let calls = fleet.gateway.counts().arrived as usize;
    assert!(calls <= 2 * SLOTS, "{calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_a_breaker_calls_on() {
    let (fleet, worker) = fleet(setup("breaker = false", String::new())).await;
    fleet.gateway.script(vec![Rule::new().status(429)]).expect("a rule");
    backlog(&fleet, "q", "bold", 0..200, SOON * 20).await;
    fleet.gateway.wait_for_arrivals(200, SOON).await.expect("each was tried once");
    assert_eq!(fleet.metric(&worker, "holdfast_gate_cuts_total", "q").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_in_flight_holds_over_all_workers() {
    let (fleet, _first) = fleet(setup("in_flight = 5", String::new())).await;
    let second = fleet.worker();
    fleet.ready(second.ops).await;
    fleet.gateway.hold(true);
    backlog(&fleet, "q", "many", 0..100, SOON * 20).await;
    fleet.gateway.wait_for_arrivals(5, SOON).await.expect("as many as may");
    pass(Duration::from_secs(3)).await;
    assert_eq!(fleet.gateway.counts().arrived, 5);
    fleet.gateway.hold(false);
    let mut most = 0;
    eventually("all are answered", SOON, async || {
        most = most.max(fleet.gateway.counts().open());
        if fleet.gateway.counts().given == 100 { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert!(most <= 5, "{most} calls at once");
}
