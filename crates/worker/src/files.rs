//! Rereads the files of the targets: credentials and certificates change without a restart.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::metrics;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::queue::Queue;

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// Looks at the files of every queue, until `stop`. What is wrong with them is told when it changes.
pub(crate) async fn run(
    queues: Arc<[Arc<Queue>]>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let mut wrong = vec![None; queues.len()];
    for queue in queues.iter() {
        metrics::gate_stale_files(queue.name.as_str(), false);
    }
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = sleep(EVERY) => {}
        }
        for (queue, wrong) in queues.iter().zip(&mut wrong) {
            *wrong = look(queue, wrong.take()).await;
            metrics::gate_stale_files(queue.name.as_str(), wrong.is_some());
        }
    }
}

/// Rereads the files of one queue: what is wrong with them, if anything.
async fn look(queue: &Arc<Queue>, before: Option<String>) -> Option<String> {
    let it = Arc::clone(queue);
    match spawn_blocking(move || it.gateway.reread()).await {
        Ok(Ok(true)) => info!(queue = %queue.name, "took changed credentials or certificates"),
        Ok(Ok(false)) => {}
        Ok(Err(err)) => {
            let now = err.to_string();
            if before.as_deref() != Some(&now) {
                error!(queue = %queue.name, error = now, "what was read before stays in use");
            }
            return Some(now);
        }
        // The runtime is ending.
        Err(_) => return before,
    }
    None
}
