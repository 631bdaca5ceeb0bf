//! Whether a connection gets on: how many requests run on it, and when something last happened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The requests of one connection, and the bytes that its peer takes.
///
/// Nobody is told of them: whoever waits for silence looks when it can have lasted long enough. Told of each, a connection
/// would be woken by its own doing, three times a request.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Clone, Copy)]
struct State {
    running: usize,
    /// When a request ended, or the peer took something.
    last: Instant,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { running: 0, last: Instant::now() })))
    }

    /// A request began; it ends when what comes back is dropped.
    pub(super) fn begin(&self) -> Running {
        self.lock().running += 1;
        Running(self.clone())
    }

    /// The peer took something. An answer is on its way for longer than its request runs.
    pub(super) fn wrote(&self) {
        self.lock().last = Instant::now();
    }

    /// Returns once no request has run, and nothing was taken, for so long from now on. What comes in does
    /// not count: a head that trickles has not begun.
    pub(super) async fn idle(&self, allowed: Duration) {
        let asked = Instant::now();
        loop {
            let (State { running, last }, now) = (*self.lock(), Instant::now());
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
