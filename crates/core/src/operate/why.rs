//! Where one request is, in one sentence, and one suggestion of what would help.

mod ended;
mod facts;
mod held;
mod suspects;
mod waiting;

use serde::{Deserialize, Serialize};

use super::{ActError, LastFailure, Queue, Seconds};
use crate::{
    Redis,
    model::{Home, Identity},
    script::Found,
};

use facts::Facts;
pub(crate) use facts::WORKER_SEEN;
pub(super) use facts::worker_name;

/// What keeps a request from going on, or that nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// Nothing is kept under this id.
    Unknown,
    /// What is kept of it has no ticket that can be read.
    TicketMissing,
    /// Its ticket is there, and it is in no home.
    Nowhere,
    /// Its body is lost: nobody can run it.
    BodyMissing,
    /// Its deadline has passed, and nobody has ended it yet.
    Late,
    /// Its queue is paused.
    Paused,
    /// As many are leased as may be.
    InFlightLimit,
    /// It is a suspect, and another one runs.
    Suspect,
    /// No worker is there.
    NoWorker,
    /// Workers are there, and none asks this queue for work.
    NotServed,
    /// Its target refuses calls, and workers hold it back.
    Breaker,
    /// Others are before it.
    Line,
    /// Its last attempt failed, and the next one is not due.
    BackOff,
    /// Its caller does not want it started yet.
    NotBefore,
    /// What it waited for is over: it is about to be moved.
    Due,
    /// A worker works on it.
    Running,
    /// Its lease ran out, and nobody has taken it back yet.
    Lapsed,
    /// Its caller wants it stopped, and its worker has yet to do it.
    Cancelling,
    /// It ended.
    Ended,
    /// It ended, and how is lost.
    RecordMissing,
}

/// The running lease, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseSeen {
    /// Whose claim it is: session and call.
    pub fence: String,
    /// What its worker calls itself, if the registry tells.
    pub worker: Option<String>,
    /// Since when it is held.
    pub claimed_at: Seconds,
    /// When it lapses unless it is renewed.
    pub expires_at: Seconds,
}

/// A place in line, in its own shard. An estimate: others come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// How many are before it.
    pub ahead: u64,
    /// How many ended there in the last minute.
    pub ended_last_minute: u64,
    /// How long those before it would take at that rate, at most a day; none where nothing ended.
    pub estimate_seconds: Option<u64>,
}

/// Where a request is, and why. Times are Unix seconds of the Redis clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Why {
    /// The queue.
    pub queue: String,
    /// Its shard there.
    pub shard: u32,
    /// Its tenant.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// Its field in the shard's hashes, in hex.
    pub key: String,
    /// `pending`, `suspects`, `delayed`, `leased`, `cancelling`, `finished`, `dead`, `nowhere` or `unknown`.
    pub state: String,
    /// What holds it, in a word.
    pub hold: Hold,
    /// Where it is and why, in a sentence.
    pub sentence: String,
    /// What would help.
    pub suggestion: String,
    /// Its generation.
    pub generation: Option<String>,
    /// Dispatches so far.
    pub attempts: Option<u32>,
    /// Leases that ran out.
    pub lapses: Option<u16>,
    /// Those that an outage is to blame for.
    pub forgiven: Option<u16>,
    /// When it was accepted.
    pub submitted_at: Option<Seconds>,
    /// After this, no answer is wanted.
    pub deadline: Option<Seconds>,
    /// When it is due, while it is delayed.
    pub next_try_at: Option<Seconds>,
    /// Its last failure.
    pub last_failure: Option<LastFailure>,
    /// Its lease, while it has one.
    pub lease: Option<LeaseSeen>,
    /// Its place, while it waits for nothing else.
    pub line: Option<Line>,
}

/// What is said of a request, before it is written down with its facts.
struct Told {
    hold: Hold,
    sentence: String,
    suggestion: String,
}

impl Told {
    fn new(hold: Hold, sentence: String, suggestion: impl Into<String>) -> Self {
        Self { hold, sentence, suggestion: suggestion.into() }
    }
}

/// Looks at one request of a queue and says why it is where it is.
pub async fn why(redis: &Redis, queue: &Queue, identity: &Identity) -> Result<Why, ActError> {
    let (shard, key) = queue.place(identity);
    let facts = Facts::gather(redis, queue, identity).await?;
    let told = tell(&facts);
    let ticket = facts.found.as_ref().map(|found| &found.ticket);
    let of_ticket = |read: fn(&crate::model::Ticket) -> u64| ticket.map(|it| Seconds(read(it)));
    Ok(Why {
        queue: queue.name.to_string(),
        shard: shard.shard,
        tenant: identity.tenant.to_string(),
        id: identity.id.to_string(),
        key: key.to_string(),
        state: state(&facts).to_owned(),
        hold: told.hold,
        sentence: told.sentence,
        suggestion: told.suggestion,
        generation: ticket.map(|ticket| ticket.generation.to_string()),
        attempts: ticket.map(|ticket| ticket.attempts),
        lapses: ticket.map(|ticket| ticket.lapses),
        forgiven: ticket.map(|ticket| ticket.forgiven),
        submitted_at: of_ticket(|ticket| ticket.submitted_at),
        deadline: of_ticket(|ticket| ticket.deadline),
        next_try_at: in_home(&facts, Home::Delayed).map(|found| Seconds(found.score)),
        last_failure: ticket.and_then(|ticket| ticket.failure).map(LastFailure::of),
        lease: in_home(&facts, Home::Leased).and_then(|found| {
            Some(LeaseSeen {
                fence: found.ticket.fence?.to_string(),
                worker: facts.holder().map(|(name, _)| name),
                claimed_at: Seconds(found.ticket.claimed_at),
                expires_at: Seconds(found.score),
            })
        }),
        line: (told.hold == Hold::Line).then(|| facts.line()),
    })
}

fn in_home(facts: &Facts, home: Home) -> Option<&Found> {
    facts.found.as_ref().filter(|found| found.home == Some(home))
}

fn state(facts: &Facts) -> &'static str {
    match &facts.found {
        None => "unknown",
        Some(found) => match found.home {
            None => "nowhere",
            Some(Home::Leased) if found.ticket.cancel_asked => "cancelling",
            Some(home) => home.word(),
        },
    }
}

/// The sentence and the suggestion, from the facts alone.
fn tell(facts: &Facts) -> Told {
    let Some(found) = &facts.found else { return ended::lost(facts) };
    match found.home {
        None => ended::nowhere(facts),
        Some(Home::Finished) => ended::finished(facts, found),
        Some(Home::Dead) => ended::dead(facts, found),
        Some(_) if !facts.has_request => waiting::bodyless(facts, found),
        Some(Home::Leased) => held::leased(facts, found),
        Some(Home::Delayed) => waiting::delayed(facts, found),
        Some(Home::Pending | Home::Suspects) => waiting::pending(facts, found),
    }
}
