//! The inference server of the demo: a stand-in in this process, which knows each worker by its credential.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_stand_in::{HeaderIs, How, Match, Options, Rule, ScriptError, StandIn};
use hyper::header::AUTHORIZATION;

use super::ledger::Arrival;

/// How long most answers take, and how long each fourth takes.
const USUAL: Duration = Duration::from_millis(150);
const SLOW: Duration = Duration::from_millis(400);
const SLOW_EVERY: u64 = 4;
/// How long the calls of a worker take that is to die with them.
const NEVER: Duration = Duration::from_secs(3_600);
/// How long those of a worker take that is frozen meanwhile: they are answered into its sockets.
const MEANWHILE: Duration = Duration::from_secs(1);

/// A running stand-in.
pub(crate) struct Gateway {
    stand_in: StandIn,
    /// Taken once the stand-in's own clock runs, so that nothing looks earlier than it was.
    since: Instant,
}

/// The word that a worker shows to the gateway.
pub(crate) fn credential(worker: &str) -> String {
    format!("demo-{worker}")
}

impl Gateway {
    pub(crate) async fn start() -> io::Result<Self> {
        let stand_in = StandIn::start(Options { delay: USUAL, ..Options::default() }).await?;
        let since = Instant::now();
        let gateway = Self { stand_in, since };
        gateway.stand_in.script(vec![slow()]).map_err(io::Error::other)?;
        Ok(gateway)
    }

    pub(crate) fn url(&self) -> String {
        self.stand_in.url()
    }

    /// The time by which arrivals are noted.
    pub(crate) fn now(&self) -> Duration {
        self.since.elapsed()
    }

    /// How many calls came so far.
    pub(crate) fn arrived(&self) -> u64 {
        self.stand_in.counts().arrived
    }

    /// From now on the calls of one worker are not answered, and those of another take longer.
    pub(crate) fn hold_up(&self, killed: &str, frozen: &str) -> Result<(), ScriptError> {
        let of = |worker: &str, delay: Duration| {
            let value = Some(format!("Bearer {}", credential(worker)));
            let header = Some(HeaderIs { name: AUTHORIZATION.to_string(), value });
            Rule { when: Match { header, ..Match::default() }, ..Rule::default() }.delay(delay)
        };
        self.stand_in.script(vec![of(killed, NEVER), of(frozen, MEANWHILE), slow()])
    }

    /// The bodies of a worker's calls that wait for their answer.
    pub(crate) fn open(&self, worker: &str) -> Vec<Bytes> {
        let arrivals = self.stand_in.arrivals();
        let open = arrivals.into_iter().filter(|it| it.end.is_none() && worker_of(it) == worker);
        open.map(|arrival| arrival.body).collect()
    }

    /// Every call so far.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let arrivals = self.stand_in.arrivals().into_iter();
        let arrivals = arrivals.map(|arrival| Arrival {
            at: arrival.since_start,
            worker: worker_of(&arrival).to_owned(),
            answer: arrival.end.filter(|end| end.how == How::Given).map(|end| end.answer),
            body: arrival.body,
        });
        arrivals.collect()
    }
}

/// Each so many-th answer takes longer.
fn slow() -> Rule {
    let when = Match { every: Some(SLOW_EVERY), ..Match::default() };
    Rule { when, ..Rule::default() }.delay(SLOW)
}

/// Who made a call; empty if nobody of ours did.
fn worker_of(arrival: &holdfast_stand_in::Arrival) -> &str {
    let value = arrival.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.strip_prefix("Bearer demo-")).unwrap_or_default()
}
