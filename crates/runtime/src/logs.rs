//! Logs: one line an event, to stdout, and nothing in them that a caller sent.

mod lines;

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{io, panic};

use tracing::level_filters::LevelFilter;
use tracing::{Metadata, error};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

use self::lines::Lines;
use crate::BoxError;
use crate::settings::{LogFormat, LogSettings};

/// How long the last lines may take at the end of the process, if nobody reads them.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What is still to be written.
static LINES: OnceLock<Lines> = OnceLock::new();

/// Waits until everything that was logged is written, for a moment at most: to be called last.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(LAST_WORDS);
    }
}

/// Starts to log as the settings say, for the whole process.
pub(crate) fn init(settings: &LogSettings) -> Result<(), BoxError> {
    let wanted = EnvFilter::try_new(&settings.filter)?.and(filter_fn(may_be_told));
    // Without a highest level, whoever might tell more is asked each time, also where nobody wants it.
    let audit = filter_fn(is_audit).with_max_level_hint(LevelFilter::INFO);
    let wanted = wanted.or(audit);
    let out = Lines::to(io::stdout())?;
    let out = LINES.get_or_init(|| out).clone();
    match settings.format {
        LogFormat::Json => {
            let lines =
                tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(out);
            registry().with(lines.with_filter(wanted)).try_init()?;
        }
        LogFormat::Pretty => {
            let lines = tracing_subscriber::fmt::layer().with_writer(out);
            registry().with(lines.with_filter(wanted)).try_init()?;
        }
    }
    panic::set_hook(Box::new(|panic| {
        // Without what it says: a slice that is cut wrongly quotes the whole text.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        error!(place, "panicked");
    }));
    Ok(())
}

/// Below a warning, libraries tell what passes through them: passwords, headers, bodies. So only
/// our own events are told in detail, whatever the filter says.
fn may_be_told(event: &Metadata<'_>) -> bool {
    event.target().starts_with("holdfast") || *event.level() <= LevelFilter::WARN
}

/// What operators do is told whatever the filter says: somebody will ask.
fn is_audit(event: &Metadata<'_>) -> bool {
    event.target() == "audit"
}

/// Lets a repeated warning through once in a while, and counts what it held back.
pub struct Seldom {
    every: Duration,
    state: Mutex<(Option<Instant>, u64)>,
}

impl Seldom {
    /// Lets one through per `every`.
    pub const fn new(every: Duration) -> Self {
        Self { every, state: Mutex::new((None, 0)) }
    }

    /// Whether to warn now; if so, how often it was held back since the last time.
    pub fn now(&self) -> Option<u64> {
        // Two plain values: sound also after a panic.
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (last, held_back) = &mut *state;
        if last.is_some_and(|last| last.elapsed() < self.every) {
            *held_back += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_warning_comes_through_seldom_and_says_how_often_it_was_held_back() {
        let seldom = Seldom::new(Duration::from_secs(3_600));
        assert_eq!(seldom.now(), Some(0));
        assert_eq!(seldom.now(), None);
        assert_eq!(seldom.now(), None);
        let often = Seldom::new(Duration::ZERO);
        assert_eq!((often.now(), often.now()), (Some(0), Some(0)));
        assert_eq!(seldom.state.lock().unwrap().1, 2);
    }
}
