//! Cluster: sending a call again that was sent to a node which does not serve its slot.
//!
//! MOVED, ASK and TRYAGAIN are said before anything runs, so that such a call may be sent again by itself. The client is not
//! left to follow them: with one attempt a call it gives up all of its connections for good at the first ASK.

use std::time::Duration;

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    types::{CustomCommand, Value},
};
use tokio::time::{Instant, sleep};

use super::CustomRaw;
use crate::error::first_word;

/// The pause before a call is sent again, at first and at last.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(100);

/// What the client says of a call that would have to go to another node; by then it has asked who serves what.
const REDIRECTED: &str = "Too many redirections.";

/// How long a call may look for its node.
pub(super) struct Moved {
    until: Instant,
}

impl Moved {
    pub(super) fn within(limit: Duration) -> Self {
        Self { until: Instant::now() + limit }
    }

    /// Sends the call until a node takes it.
    pub(super) async fn follow(
        self,
        client: &Client,
        command: CustomCommand,
        words: Vec<Value>,
    ) -> Result<Value, Error> {
        let mut pause = SHORTEST;
        loop {
            let answer = client.custom_raw_value(command.clone(), words.clone()).await;
            if !answer.as_ref().is_err_and(is_elsewhere) {
                return answer;
            }
            if Instant::now() + pause >= self.until {
                return answer.map_err(told);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }
}

/// Whether the call was refused because its slot is elsewhere, or on its way.
fn is_elsewhere(error: &Error) -> bool {
    is_redirected(error) || first_word(error) == "TRYAGAIN"
}

fn is_redirected(error: &Error) -> bool {
    *error.kind() == ErrorKind::Routing && error.details() == REDIRECTED
}

/// The client's words in those of Redis, which tell that nothing ran.
fn told(error: Error) -> Error {
    match is_redirected(&error) {
        true => Error::new(ErrorKind::Cluster, "MOVED: its slot is on its way to another node"),
        false => error,
    }
}
