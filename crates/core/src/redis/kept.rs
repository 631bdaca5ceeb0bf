//! A client whose connections are kept for as long as it is.
//!
//! fred reconnects for ever, but for a few errors that it takes for final: then its task ends, and every later call waits in
//! vain while all else in the process looks well. Whoever gets no answer looks whether that has happened, and starts it anew.

use std::sync::{Mutex, PoisonError};

use fred::{clients::Client, interfaces::ClientLike, types::ConnectHandle};
use tracing::warn;

/// The task that keeps a client's connections.
pub(super) struct Kept(Mutex<ConnectHandle>);

impl Kept {
    /// Starts to connect.
    pub(super) fn connect(client: &Client) -> Self {
        Self(Mutex::new(client.connect()))
    }

    /// Connects anew if nobody keeps the connections any more.
    pub(super) fn look(&self, client: &Client) {
        // A task or another: whole whatever panicked.
        let mut task = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_finished() {
            warn!("the connections to redis were given up: they are made anew");
            *task = client.connect();
        }
    }
}
