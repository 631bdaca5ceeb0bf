//! Whether a connection gets on: how many requests run on it, whether one waits for its body, and when something last
//! happened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The requests of one connection, and the bytes that its peer takes.
///
/// Nobody is told of them: whoever waits for silence looks when it can have lasted long enough. Told of each, a connection
/// would be woken by its own doing, three times a request.
#[derive(Clone)]
pub(super) struct Activity(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Told when the connection is to give its place to another.
    leave: Notify,
}

#[derive(Clone, Copy)]
struct State {
    running: usize,
    /// Its request waits for more of its body.
    starved: bool,
    /// It was told to leave.
    leaving: bool,
    /// When a request began or ended, some of its body came, or the peer took something.
    last: Instant,
}

/// How a connection lets itself be waited for. The first in order is the first to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quiet {
    /// A request has begun on it.
    pub(super) has_begun: bool,
    /// Since when nothing has happened.
    pub(super) since: Instant,
}

impl Activity {
    pub(super) fn new() -> Self {
        let state = State { running: 0, starved: false, leaving: false, last: Instant::now() };
        Self(Arc::new(Shared { state: Mutex::new(state), leave: Notify::new() }))
    }

    /// A request began; it ends when what comes back is dropped.
    pub(super) fn begin(&self) -> Running {
        let mut state = self.lock();
        state.running += 1;
        state.last = Instant::now();
        drop(state);
        Running(self.clone())
    }

    /// The peer took something. An answer is on its way for longer than its request runs.
    pub(super) fn wrote(&self) {
        self.lock().last = Instant::now();
    }

    /// The running request waits for more of its body, or some has come.
    pub(super) fn starve(&self, starved: bool) {
        let mut state = self.lock();
        state.starved = starved;
        if !starved {
            state.last = Instant::now();
        }
    }

    /// Since when its peer lets it wait; none: something runs on it, or it leaves already.
    pub(super) fn quiet(&self) -> Option<Quiet> {
        let State { running, starved, leaving, last } = *self.lock();
        let waits = !leaving && (running == 0 || starved);
        waits.then_some(Quiet { has_begun: running > 0, since: last })
    }

    /// Ends the connection, wherever it is.
    pub(super) fn leave(&self) {
        self.lock().leaving = true;
        self.0.leave.notify_one();
    }

    /// Returns once no request has run, and nothing was taken, for so long from now on, or when the connection is to leave.
    /// What comes in does not count: a head that trickles has not begun.
    pub(super) async fn idle(&self, allowed: Duration) {
        tokio::select! {
            () = self.silent(allowed) => {}
            () = self.0.leave.notified() => {}
        }
    }

    async fn silent(&self, allowed: Duration) {
        let asked = Instant::now();
        loop {
            let (State { running, last, .. }, now) = (*self.lock(), Instant::now());
            // Of one that runs it is not known when it ends: not before now.
            let quiet_since = if running > 0 { now } else { last.max(asked) };
            let due = quiet_since + allowed;
            if due <= now && running == 0 {
                return;
            }
            sleep_until(due).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Plain values: whole also after a panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that runs.
pub(super) struct Running(Activity);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running -= 1;
        state.last = Instant::now();
    }
}
