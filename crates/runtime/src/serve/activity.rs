//! Whether a connection gets on: how many requests run on it, and when something last happened.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The requests of one connection, and the bytes that its peer takes.
#[derive(Clone)]
pub(super) struct Activity(watch::Sender<usize>);

impl Activity {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// A request began; it ends when what comes back is dropped.
    pub(super) fn begin(&self) -> Running {
        self.0.send_modify(|running| *running += 1);
        Running(self.clone())
    }

    /// The peer took something. An answer is on its way for longer than its request runs.
    pub(super) fn wrote(&self) {
        self.0.send_modify(|_| {});
    }

    /// Returns once no request has run, and nothing was taken, for so long. What comes in does
    /// not count: a head that trickles has not begun.
    pub(super) async fn idle(&self, allowed: Duration) {
        let mut changes = self.0.subscribe();
        loop {
            let quiet = *changes.borrow_and_update() == 0;
            let changed = changes.changed();
            // The sender lives as long as `self`, so `changed` never fails.
            if quiet {
                if timeout(allowed, changed).await.is_err() {
                    return;
                }
            } else if changed.await.is_err() {
                return;
            }
        }
    }
}

/// A request that runs.
pub(super) struct Running(Activity);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|running| *running -= 1);
    }
}
