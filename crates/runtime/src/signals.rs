//! SIGTERM and SIGINT: the first asks to drain, the second to end at once.

use std::convert::Infallible;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::Stop;

/// The signals that end a process. From `listen` on they no longer kill it.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Turns signals into requests to stop, for ever.
    pub(crate) async fn forward(&mut self, stop: &Stop) -> Infallible {
        // Waited for outside of the event: what the filter leaves out is not evaluated.
        let signal = self.next().await;
        info!(signal, "asked to stop");
        stop.drain.cancel();
        let signal = self.next().await;
        warn!(signal, "asked to stop again: ending at once");
        stop.now.cancel();
        std::future::pending().await
    }

    /// Waits for the next one, also if it came before; gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
