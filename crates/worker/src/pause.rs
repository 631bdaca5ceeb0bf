//! Waits before a call that Redis has not answered is sent again.

use tokio::time::sleep;

use crate::backoff::Pauses;

/// Waits for the next of the pauses.
pub(crate) async fn before_repeat(pauses: &mut Pauses) {
    let pause = pauses.next(&mut rand::rng());
    sleep(pause).await;
}
