//! SIGTERM, SIGINT and SIGHUP: the first asks to drain, the second to end at once.
//!
//! SIGHUP says that the terminal is gone. Who started the process by `nohup` does not want it to end of that: where it is
//! ignored from the start, it stays so.

use std::convert::Infallible;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::Stop;

/// The signals that end a process. From `listen` on they no longer kill it.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// None: whoever started us has it ignored.
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let kind = SignalKind::hangup();
        let hangup = if is_ignored(kind) { None } else { Some(signal(kind)?) };
        Ok(Self { terminate, interrupt, hangup })
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
            Some(_) = hung_up(&mut self.hangup) => "SIGHUP",
        }
    }
}

async fn hung_up(hangup: &mut Option<Signal>) -> Option<()> {
    match hangup {
        Some(hangup) => hangup.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether a signal is ignored, as far as the system tells it without a call of its own.
fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}
