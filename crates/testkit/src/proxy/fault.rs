//! What can happen to a request, and to which.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Chooses requests by their words: the command and its arguments.
pub(super) type Matching = Box<dyn Fn(&[Vec<u8>]) -> bool + Send + Sync>;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It runs; instead of its answer the client sees the connection cut.
    LoseReply,
    /// It runs; its answer, and all after it on that connection, come later.
    DelayReply(Duration),
    /// It, and all after it on that connection, reach the server later.
    DelayRequest(Duration),
    /// It is kept from the server until [`Proxy::release_held`](super::Proxy::release_held); the client gets what was
    /// due before it and then sees the connection cut.
    HoldRequest,
    /// It doesn't reach the server; the client gets this error, for example `ERR no`.
    Refuse(String),
    /// It doesn't reach the server, and that connection answers nothing from then on.
    Swallow,
}

/// To which of the matching requests it happens, counted over all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// To each.
    Each,
    /// To this one alone; the first is 1.
    Nth(usize),
    /// To this many, from the first on.
    First(usize),
}

impl When {
    fn includes(self, number: usize) -> bool {
        match self {
            Self::Each => true,
            Self::Nth(only) => number == only,
            Self::First(last) => number <= last,
        }
    }
}

/// Matches every request.
pub fn anything() -> impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static {
    |_| true
}

/// Matches a command by its name, in any case.
pub fn command(name: &str) -> impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static {
    let name = name.as_bytes().to_vec();
    move |words| words.first().is_some_and(|word| word.eq_ignore_ascii_case(&name))
}

/// Matches the calls of one script, by its SHA-1.
pub fn evalsha(sha1: &str) -> impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static {
    let (is_evalsha, sha1) = (command("EVALSHA"), sha1.as_bytes().to_vec());
    move |words| {
        is_evalsha(words) && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(&sha1))
    }
}

/// Matches requests one of whose words contains these bytes.
pub fn contains(bytes: impl Into<Vec<u8>>) -> impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static {
    let bytes = bytes.into();
    assert!(!bytes.is_empty(), "every request contains nothing");
    move |words| words.iter().any(|word| word.windows(bytes.len()).any(|part| part == bytes))
}

/// A fault, or a mere count if there is none, for the requests that match.
pub(super) struct Rule {
    fault: Option<Fault>,
    when: When,
    matching: Matching,
    seen: watch::Sender<Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    matched: usize,
    fired: usize,
}

impl Rule {
    pub(super) fn new(fault: Option<Fault>, when: When, matching: Matching) -> Self {
        Self { fault, when, matching, seen: watch::Sender::default() }
    }

    /// Takes note of a request. If another fault has `taken` it, it's only counted.
    pub(super) fn look(&self, words: &[Vec<u8>], taken: bool) -> Option<&Fault> {
        if !(self.matching)(words) {
            return None;
        }
        let mut fault = None;
        self.seen.send_modify(|seen| {
            seen.matched += 1;
            fault = self.fault.as_ref().filter(|_| !taken && self.when.includes(seen.matched));
            seen.fired += usize::from(fault.is_some());
        });
        fault
    }
}

/// A fault that was injected, to see what became of it.
pub struct Injected(pub(super) Arc<Rule>);

impl Injected {
    /// How many requests have matched.
    pub fn matched(&self) -> usize {
        self.0.seen.borrow().matched
    }

    /// How many requests it has happened to. It has begun for them, and may not be over.
    pub fn fired(&self) -> usize {
        self.0.seen.borrow().fired
    }

    /// Waits until it has happened to `count` requests.
    ///
    /// # Panics
    ///
    /// If it has not within `limit`.
    pub async fn wait_fired(&self, count: usize, limit: Duration) {
        self.wait("fired", count, limit, |seen| seen.fired).await;
    }

    /// Waits until `count` requests have matched.
    ///
    /// # Panics
    ///
    /// If they have not within `limit`.
    pub async fn wait_matched(&self, count: usize, limit: Duration) {
        self.wait("matched", count, limit, |seen| seen.matched).await;
    }

    async fn wait(&self, what: &str, count: usize, limit: Duration, of: fn(&Seen) -> usize) {
        let mut seen = self.0.seen.subscribe();
        let reached = timeout(limit, seen.wait_for(|seen| of(seen) >= count)).await.is_ok();
        assert!(reached, "not within {limit:?}: {what} {count} times, but {self:?}");
    }
}

impl fmt::Debug for Injected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { matched, fired } = *self.0.seen.borrow();
        let Rule { fault, when, .. } = &*self.0;
        write!(out, "{fault:?} {when:?}: matched {matched}, fired {fired}")
    }
}
