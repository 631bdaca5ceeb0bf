//! A worker is killed with all that it has in flight: how long until others have it, and what that costs at once.
//!
//! The calls of the killed worker are at a stand-in that does not answer, so that none of them ends by itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_testkit::{Process, eventually};

use crate::Effort;
use crate::fleet::{Fleet, Role};
use crate::gateway::Gateway;
use crate::machine::{self, Machine};
use crate::protocol::holdfast::Holdfast;
use crate::report::{Report, Row, median};
use crate::server::{self, Slow};
use crate::spending;
use crate::times::monotonic;

/// Requests in flight in the worker.
const REQUESTS: usize = 8_000;

/// Its lease; the reclaimer looks three times in it.
const LEASE: Duration = Duration::from_secs(3);

/// What may be added to the lease.
const GRACE: Duration = Duration::from_secs(2);

/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(60);

/// From how many µs on a script is looked at.
const LOGGED_FROM: u64 = 200;

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let before = machine::load();
    let mut scene = Scene::set().await;
    let machine = Machine::look(&scene.side.server).await;
    let rounds = if effort == Effort::Quick { 1 } else { 5 };
    let (mut back, mut again, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        eprintln!("a killed worker: round {round} of {rounds}");
        back.push(scene.until_pending().await.as_secs_f64());
        logs.push(scene.log().await);
        scene.clear().await;
        again.push(scene.until_redelivered().await.as_secs_f64());
        logs.push(scene.log().await);
        scene.clear().await;
    }
    let rows = vec![
        Row::new(
            "8,000 in flight killed: until all are in pending again, at most",
            "s",
            most(&back),
        )
        .at_most((LEASE + GRACE).as_secs_f64())
        .note(format!("a lease of {LEASE:?}; median {:.2} s", median(&back)))
        .samples("rounds", back),
        Row::new(
            "8,000 in flight killed: until another worker has called for all",
            "s",
            most(&again),
        )
        .note(format!("median {:.2} s", median(&again)))
        .samples("rounds", again),
        longest(&logs),
    ];
    Report::new("recovery", machine, [before, machine::load()], rows)
}

/// The longest script of all rounds. Its time is by the clock: what Redis waited for a core is in it, and told beside.
fn longest(logs: &[Log]) -> Row {
    let what = "8,000 in flight killed: the longest script until then";
    let each: Vec<f64> = logs.iter().map(|log| log.slow.first().map_or(0.0, |it| it.ms)).collect();
    let all: Vec<&Slow> = logs.iter().flat_map(|log| &log.slow).collect();
    let longest = all.iter().max_by(|one, other| one.ms.total_cmp(&other.ms));
    let script = longest.map_or("none was kept", |it| it.script.as_str());
    let taken_off: Vec<f64> = logs.iter().map(|log| log.taken_off as f64).collect();
    let note = format!(
        "{script}; median of the rounds {:.1} ms; Redis was taken off its core {:.0} times a round",
        median(&each),
        median(&taken_off)
    );
    let row = Row::new(what, "ms", most(&each)).at_most(5.0).note(note);
    let row = row.samples("each", each).samples("taken off its core", taken_off);
    let names: BTreeSet<&str> = all.iter().map(|it| it.script.as_str()).collect();
    let times = |name: &str| all.iter().filter(|it| it.script == name).map(|it| it.ms).collect();
    names.into_iter().fold(row, |row, name| row.samples(name, times(name)))
}

/// What Redis did from a kill on.
struct Log {
    slow: Vec<Slow>,
    /// How often its main thread had to let another run.
    taken_off: u64,
}

fn most(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}

/// A queue, a reclaimer, and a stand-in that does not answer.
struct Scene {
    side: Holdfast,
    gateway: Gateway,
    fleet: Fleet,
    _reclaimer: Process,
    taken_off: u64,
}

impl Scene {
    async fn set() -> Self {
        let redis = server::start(|_| {}).await;
        let gateway = Gateway::start().await;
        gateway.hold(true).await;
        let settings = format!(
            "[worker]\nconcurrency = {REQUESTS}\nlease = \"{}s\"\n[queues.bench]\ntarget = \"{}\"\n",
            LEASE.as_secs(),
            gateway.url()
        );
        let fleet = Fleet::new(&redis, &settings);
        let reclaimer = fleet.start(Role::Reclaimer).await;
        let url = redis.url().to_owned();
        let side = Holdfast::new(redis, &url, 1 << 10).await;
        Self { side, gateway, fleet, _reclaimer: reclaimer, taken_off: 0 }
    }

    /// A worker with all requests in flight.
    async fn busy(&mut self) -> Process {
        let before = self.gateway.now().await.arrived;
        let worker = self.fleet.start(Role::Worker).await;
        self.side.pile_up(REQUESTS).await;
        self.gateway.until(before + REQUESTS as u64, 0).await;
        assert_eq!(self.side.leased().await, REQUESTS as i64, "all are leased");
        worker
    }

    /// From the kill until the last is in pending again. No other worker takes them.
    async fn until_pending(&mut self) -> Duration {
        let mut worker = self.busy().await;
        self.listen().await;
        worker.kill();
        let killed = Instant::now();
        eventually("all are back", LIMIT, async || match self.side.pending().await {
            pending if pending == REQUESTS as i64 => Ok(()),
            pending => Err(format!("{pending} are pending")),
        })
        .await;
        killed.elapsed()
    }

    /// From the kill until another worker, which had nothing to do, has called for the last.
    async fn until_redelivered(&mut self) -> Duration {
        let mut worker = self.busy().await;
        let mut heir = self.fleet.start(Role::Worker).await;
        let before = self.gateway.now().await.arrived;
        self.listen().await;
        worker.kill();
        let killed = monotonic();
        let told = self.gateway.until(before + REQUESTS as u64, 0).await;
        heir.kill();
        told.last - killed
    }

    /// From now on what Redis does is kept.
    async fn listen(&mut self) {
        server::log_from(&self.side.server, LOGGED_FROM).await;
        self.taken_off = spending::taken_off(self.side.server.pid());
    }

    async fn log(&self) -> Log {
        let taken_off = spending::taken_off(self.side.server.pid()) - self.taken_off;
        Log { slow: server::slow(&self.side.server).await, taken_off }
    }

    /// Waits for whatever is still leased, and takes all away.
    async fn clear(&mut self) {
        eventually("no lease is left", LIMIT, async || match self.side.leased().await {
            0 => Ok(()),
            leased => Err(format!("{leased} are leased")),
        })
        .await;
        self.side.drain().await;
    }
}
