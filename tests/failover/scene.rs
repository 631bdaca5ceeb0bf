//! One run: a primary is lost under load, another takes its place, and the first comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{AppendFsync, Http, RedisOptions, RedisServer, Sentinel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::fleet::{Fleet, Role, Setup};
use crate::ledger::{Ledger, Row};

/// How safe answers are, and what that takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// As the table says it.
    pub(crate) name: &'static str,
    /// The queue's `durability`.
    durability: &'static str,
    /// When the servers write through.
    appendfsync: AppendFsync,
    /// Whether a primary without a replica refuses writes.
    min_replicas: bool,
}

/// All of them, as docs/configuration.md names them.
pub(crate) const LEVELS: [Level; 4] = [
    level("acknowledged, everysec", "acknowledged", AppendFsync::EverySecond, false),
    level("acknowledged, always", "acknowledged", AppendFsync::Always, false),
    level("fsynced, everysec", "fsynced", AppendFsync::EverySecond, false),
    level("replicated, everysec", "replicated", AppendFsync::EverySecond, true),
];

const fn level(
    name: &'static str,
    durability: &'static str,
    appendfsync: AppendFsync,
    min_replicas: bool,
) -> Level {
    Level { name, durability, appendfsync, min_replicas }
}

impl Level {
    /// Whether nothing may be lost.
    pub(crate) fn is_replicated(&self) -> bool {
        self.durability == "replicated"
    }
}

/// What happens to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Killed,
    Paused,
    CutOff,
    /// Its replica and the sentinels do not reach it any more, but callers do.
    Split,
}

/// Each of them.
pub(crate) const FAULTS: [Fault; 4] = [Fault::Killed, Fault::Paused, Fault::CutOff, Fault::Split];

impl Fault {
    /// As the table says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed, and started again",
            Self::Paused => "paused, and brought back",
            Self::CutOff => "cut off from all",
            Self::Split => "cut off from its peers only",
        }
    }
}

/// Callers, each with one request at a time.
const CALLERS: usize = 16;
/// The pause between two: the workers keep up, so that much is accepted, under way and settled at any moment.
const PAUSE: Duration = Duration::from_millis(40);
/// How long they submit before the fault.
const BEFORE: Duration = Duration::from_secs(3);
/// How long the lost primary stays away once another has taken its place.
const AWAY: Duration = Duration::from_secs(3);
/// How long they go on when it is back.
const AFTER: Duration = Duration::from_secs(5);
/// What a promotion may take.
const PROMOTION: Duration = Duration::from_secs(40);
/// By when every accepted request must have ended: leases lapse meanwhile.
const END: Duration = Duration::from_secs(40);

/// Plays one fault at one level.
pub(crate) async fn play(level: Level, fault: Fault) -> Row {
    let group = Sentinel::recent(3, |options: &mut RedisOptions| {
        options.appendfsync = level.appendfsync;
        if level.min_replicas {
            let words = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
            options.args.extend(words.map(str::to_owned));
        }
    });
    let group = group.await;
    let fleet = fleet(&group, level).await;
    let (workers, _reclaimer) = ([fleet.worker(), fleet.worker()], fleet.reclaimer());
    for role in &workers {
        fleet.ready(role.ops).await;
    }
    let (ledger, stop) = (Arc::new(Ledger::default()), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let call =
            Caller { number: caller, http: Http::new(), api: fleet.api("/v1/queues/q/requests") };
        callers.spawn(call.run(Arc::clone(&ledger), Arc::clone(&stop)));
    }
    sleep(BEFORE).await;

    let began = Instant::now();
    strike(&group, fault).await;
    group.promoted(1, PROMOTION).await;
    sleep(AWAY).await;
    heal(&group, fault).await;
    group.replicating(1).await;
    sleep(AFTER).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.expect("a caller");
    }
    read_all(&fleet, &ledger).await;
    let mut row = ledger.count(&fleet.gateway.arrivals());
    row.back = ledger.back_after(began);
    row.fenced = fenced(&fleet, &workers).await;
    row
}

async fn fleet(group: &Sentinel, level: Level) -> Fleet {
    let setup = Setup {
        redis_url: Some(group.url()),
        queue: format!("durability = \"{}\"", level.durability),
        worker: "concurrency = 256\nlease = \"3s\"\nrenew = \"1s\"\ndrain = \"10s\"".to_owned(),
        ..Setup::default()
    };
    // Its own server stays unused.
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    // Long enough that many are under way when the primary is lost; some outlive their lease meanwhile.
    let slow = Rule::on_body("<").delay(Duration::from_millis(200));
    let slower = Rule::on_body("7>").delay(Duration::from_millis(2500));
    fleet.gateway.script(vec![slower, slow]).expect("rules");
    fleet
}

async fn strike(group: &Sentinel, fault: Fault) {
    match fault {
        Fault::Killed => group.server(0).kill().await,
        Fault::Paused => group.server(0).pause(),
        Fault::CutOff => group.relay(0).cut_off(),
        Fault::Split => group.relay(0).cut_off_from_peers(),
    }
}

async fn heal(group: &Sentinel, fault: Fault) {
    match fault {
        Fault::Killed => group.server(0).restart().await,
        Fault::Paused => group.server(0).resume(),
        Fault::CutOff | Fault::Split => group.relay(0).restore(),
    }
}

/// Submits one request after another, and reads the result of each while it goes on with the next.
struct Caller {
    number: usize,
    http: Http,
    api: String,
}

impl Caller {
    async fn run(self, ledger: Arc<Ledger>, stop: Arc<AtomicBool>) {
        let mut readers = JoinSet::new();
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let id = format!("c{}-{number}", self.number);
            let message =
                format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"<{id}>\"}}]}}");
            let item = format!("{{\"id\":\"{id}\",\"timeout\":\"5m\",\"payload\":{message}}}");
            let headers = [("content-type", "application/json")];
            loop {
                let began = Instant::now();
                match self.http.try_request("POST", &self.api, &headers, item.clone()).await {
                    Ok(answer) if matches!(answer.status, 200 | 202) => {
                        ledger.accepted(&id, began, &answer);
                        break;
                    }
                    Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
                    Err(_) => {}
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
            // As soon as there is a record, it is looked at: what is shown once must stay.
            let (http, url, ledger) = (
                self.http.clone(),
                format!("{}/{id}/result?wait=3", self.api),
                Arc::clone(&ledger),
            );
            readers.spawn(async move {
                if let Ok(answer) = http.try_request("GET", &url, &[], "").await
                    && answer.status == 200
                {
                    ledger.shown(&id, &answer);
                }
            });
            sleep(PAUSE).await;
        }
        while readers.join_next().await.is_some() {}
    }
}

/// Asks for every accepted request once more.
async fn read_all(fleet: &Fleet, ledger: &Arc<Ledger>) {
    let mut readers = JoinSet::new();
    let until = Instant::now() + END;
    for ids in ledger.ids().chunks(100) {
        let (http, ledger, ids) = (fleet.http.clone(), Arc::clone(ledger), ids.to_vec());
        let api = fleet.api("/v1/queues/q/requests");
        readers.spawn(async move {
            for id in ids {
                let url = format!("{api}/{id}/result?wait=5");
                let read = async {
                    loop {
                        match http.try_request("GET", &url, &[], "").await {
                            Ok(answer) if answer.status == 200 => break Some(answer),
                            Ok(answer) if answer.status == 404 => break None,
                            _ => sleep(Duration::from_millis(100)).await,
                        }
                    }
                };
                let left = until.saturating_duration_since(Instant::now()) + Duration::from_secs(1);
                match timeout(left, read).await {
                    Ok(Some(answer)) => ledger.shown(&id, &answer),
                    Ok(None) | Err(_) => ledger.lost(&id),
                }
            }
        });
    }
    while let Some(ended) = readers.join_next().await {
        ended.expect("a reader");
    }
}

async fn fenced(fleet: &Fleet, workers: &[Role]) -> u64 {
    let mut count = 0.0;
    for worker in workers {
        for outcome in ["fenced", "gone"] {
            let label = format!("outcome=\"{outcome}\"");
            count += fleet.metric(worker, "holdfast_settles_total", &label).await;
        }
    }
    count as u64
}
