//! A clock that goes on only when nothing is left to do.
//!
//! All of a play runs on one thread and one runtime whose clock stands. When every task waits and no socket has anything
//! for one, tokio moves the clock to the next timer. Bytes are at the other end of a Unix socket, or of one to the same
//! host, as soon as they are written: so no time passes while they travel, which a test here holds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Builder,
    task::{JoinSet, yield_now},
    time::{Instant, sleep, sleep_until},
};

/// How often it is looked whether all is well.
const EVERY: Duration = Duration::from_millis(250);
/// So many turns without a byte moved: whoever could be woken by one has been, and has moved none.
const TURNS: u32 = 4;

/// Counts bytes that were moved, for all sockets of a play. Clones are the same value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moved(Arc<AtomicU64>);

impl Moved {
    /// Something was read, written, accepted or closed.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets everybody do what is to be done at this moment.
    async fn rest(&self) {
        let (mut calm, mut before) = (0, self.count());
        while calm < TURNS {
            // Goes on once every task has had its turn and the sockets have been asked.
            yield_now().await;
            let now = self.count();
            calm = if now == before { calm + 1 } else { 0 };
            before = now;
        }
    }
}

/// Plays `play` to its end. `quiet` looks at moments at which nothing is left to do; false: that is the end, and there is
/// nothing to tell of the play.
pub(crate) fn run<T>(
    moved: &Moved,
    quiet: impl Fn() -> bool + Send + 'static,
    play: impl Future<Output = T>,
) -> Option<T> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let moved = moved.clone();
    let watch = async move {
        while quiet() {
            sleep(EVERY).await;
            moved.rest().await;
        }
    };
    let end = runtime.block_on(async {
        let mut watching = JoinSet::new();
        watching.spawn(watch);
        tokio::select! {
            biased;
            end = play => Some(end),
            _ = watching.join_next() => None,
        }
    });
    runtime.shutdown_background();
    end
}

/// Waits until so much time has passed since `start`.
pub(crate) async fn until(start: Instant, ms: u64) {
    sleep_until(start + Duration::from_millis(ms)).await;
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
        time::sleep,
    };

    use super::*;

    /// Bytes there and back a hundred times, while timers of other tasks wait for their moment: no time may pass.
    #[test]
    fn no_time_passes_while_bytes_travel() {
        let moved = Moved::default();
        let passed = run(&moved, || true, async {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            let mut tasks = JoinSet::new();
            tasks.spawn(async {
                loop {
                    sleep(Duration::from_millis(5)).await;
                }
            });
            let echo = moved.clone();
            tasks.spawn(async move {
                let mut byte = [0];
                while there.read_exact(&mut byte).await.is_ok() {
                    echo.note();
                    there.write_all(&byte).await.unwrap();
                }
            });
            let start = Instant::now();
            for _ in 0..100 {
                here.write_all(b"x").await.unwrap();
                here.read_exact(&mut [0]).await.unwrap();
            }
            start.elapsed()
        });
        assert_eq!(passed, Some(Duration::ZERO));
    }

    #[test]
    fn an_hour_passes_in_no_time() {
        let began = std::time::Instant::now();
        run(&Moved::default(), || true, async {
            let start = Instant::now();
            until(start, 3_600_000).await;
            assert_eq!(start.elapsed(), Duration::from_secs(3_600));
        });
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
