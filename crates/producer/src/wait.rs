//! Waiting for an end: a message wakes whoever waits, and a look now and then makes up for lost ones.

use std::time::Duration;

use holdfast_core::model::{Generation, Home};
use holdfast_core::redis::{Message, Subscriber};
use holdfast_core::script::Found;
use tokio::time::{Instant, sleep, sleep_until};

use crate::app::{App, Named};
use crate::ended::{Ended, Watch};
use crate::problem::Problem;

/// How long a wait goes without a look of its own, in ms, drawn anew each time.
const LOOK_EVERY_MS: std::ops::Range<u64> = 1_000..2_000;

/// Wakes who waits for what the channels of the shards tell, for ever.
pub(crate) async fn listen(mut subscriber: Subscriber, ended: Ended) {
    loop {
        match subscriber.next().await {
            Message::Heard { bytes, .. } => ended.wake(&bytes),
            Message::Subscribed => ended.wake_all(),
        }
    }
}

/// Waits until a generation has ended or is gone, until `until`, or until the process stops;
/// gives what was seen last.
///
/// Who watches it from before it was submitted has no look to make before the first wake-up.
///
/// A Redis that is away for a while does not end the wait; one that is away at its end does.
pub(crate) async fn until_over(
    app: &App,
    named: &Named,
    generation: Generation,
    until: Instant,
    from_before: Option<Watch>,
) -> Result<Option<Found>, Problem> {
    let mut from_before = from_before;
    loop {
        let mut watch = match from_before.take() {
            Some(watch) => watch,
            None => {
                // Before the look: an end between the two is heard.
                let watch = app.ended.watch(named.key, generation);
                let looked = app.look(named).await;
                let is_over =
                    looked.as_ref().is_ok_and(|found| is_over(found.as_ref(), generation));
                if is_over || Instant::now() >= until || app.stop.is_cancelled() {
                    return looked;
                }
                watch
            }
        };
        let pause = Duration::from_millis(rand::random_range(LOOK_EVERY_MS));
        tokio::select! {
            () = watch.woken() => {}
            () = sleep(pause) => {}
            () = sleep_until(until) => {}
            () = app.stop.cancelled() => {}
        }
    }
}

/// Whether there is nothing more to wait for.
fn is_over(found: Option<&Found>, generation: Generation) -> bool {
    found.is_none_or(|found| {
        found.ticket.generation != generation || found.home.is_some_and(Home::is_end)
    })
}
