//! How long the cases take. `CASES_FULL=1` runs them at full length, as `just cases` does; otherwise every time of a case
//! is shortened by one factor, and its largest counts are smaller.

use std::env;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use holdfast_testkit::eventually;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What times are multiplied by in a short run.
const SHORT: f64 = 0.25;

/// What the times of all cases are multiplied by.
static SCALE: LazyLock<f64> = LazyLock::new(|| if full() { 1.0 } else { SHORT });

/// Held by every case: shared by most, alone by those that measure or need a whole core.
static MACHINE: RwLock<()> = RwLock::const_new(());

/// Whether the cases run at full length.
pub(crate) fn full() -> bool {
    // No HOLDFAST_ variable: those are settings of the processes that the cases start.
    env::var_os("CASES_FULL").is_some_and(|value| value == "1")
}

/// A time of a case, given in seconds at full length.
pub(crate) fn time(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds * *SCALE)
}

/// A count of a case: at full length, and in a short run.
pub(crate) fn count(whole: usize, short: usize) -> usize {
    if full() { whole } else { short }
}

/// A time as settings and bodies spell it.
pub(crate) fn spelled(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// Runs beside other cases.
pub(crate) async fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

/// Runs while no other case does.
pub(crate) async fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

/// Lets a time of the case pass: what happens meanwhile is what it is about.
pub(crate) async fn pass(time: Duration) {
    let since = Instant::now();
    eventually("time passes", time + Duration::from_secs(60), async || {
        if since.elapsed() >= time { Ok(()) } else { Err("not yet") }
    })
    .await;
}
