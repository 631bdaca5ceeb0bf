//! Leaving a server that is a replica by now.
//!
//! A primary that was demoted keeps its connections. Whoever goes on asking it is refused for as long as they stand, while
//! its name, or Sentinel, has long been naming another server. So a refusal for that reason is taken for news: the
//! connection is made anew, from the name on.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    error::Error,
    interfaces::{ClientLike, FredResult},
};
use futures_util::FutureExt;
use tracing::info;

use crate::error::first_word;

/// How soon a connection is made anew again: a replica may be all there is for a while.
const AGAIN: Duration = Duration::from_secs(1);

/// When the primary was last looked for.
#[derive(Debug, Default)]
pub(super) struct Primary(Mutex<Option<Instant>>);

impl Primary {
    /// Looks at an answer.
    pub(super) fn look<T>(&self, client: &Client, answer: &Result<T, Error>) {
        if answer.as_ref().is_err_and(|error| first_word(error) == "READONLY") {
            self.is_elsewhere(client);
        }
    }

    /// Connects anew, unless that was just done.
    pub(super) fn is_elsewhere(&self, client: &Client) {
        // One plain value: whole whatever panicked.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < AGAIN) {
            return;
        }
        *last = Some(Instant::now());
        drop(last);
        info!("this redis is a replica: looking for its primary");
        // What is under way meets the same refusal. The order is sent when it is first looked at, nobody waits for its end.
        let ordered: Option<FredResult<()>> = client.force_reconnection().now_or_never();
        drop(ordered);
    }
}
