//! Rereads the files of the targets: credentials and certificates change without a restart.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::queue::Queue;

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(10);

/// Looks at the files of every queue, until `stop`.
pub(crate) async fn run(
    queues: Arc<[Arc<Queue>]>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = sleep(EVERY) => {}
        }
        for queue in &*queues {
            let gateway = Arc::clone(queue);
            let Ok(reread) = spawn_blocking(move || gateway.gateway.reread()).await else {
                continue;
            };
            match reread {
                Ok(true) => info!(queue = %queue.name, "took changed credentials or certificates"),
                Ok(false) => {}
                Err(err) => {
                    warn!(queue = %queue.name, error = %err, "what was read before stays in use");
                }
            }
        }
    }
}
