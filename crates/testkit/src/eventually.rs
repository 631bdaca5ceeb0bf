//! Waiting for something to become true.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// The pause between two looks, at first and at last.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);

/// Looks again and again until `probe` succeeds, and gives what it found.
///
/// ```no_run
/// # async fn example(redis: holdfast_testkit::RedisServer) {
/// # use std::time::Duration;
/// let size = holdfast_testkit::eventually("the key is gone", Duration::from_secs(5), async || {
///     match redis.command(&["EXISTS", "key"]).await.int() {
///         Some(0) => Ok(()),
///         other => Err(format!("EXISTS says {other:?}")),
///     }
/// });
/// # size.await }
/// ```
///
/// # Panics
///
/// After `limit`, telling `what` was awaited and the last error; a probe that hangs counts as one that failed.
pub async fn eventually<T, E: Display>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let until = Instant::now() + limit;
    let (mut pause, mut last) = (SHORTEST, String::from("the first look did not end"));
    loop {
        match timeout_at(until, probe()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(err)) => last = err.to_string(),
            Err(_) => panic!(
                "not within {limit:?}: {what}; a look did not end, the one before said: {last}"
            ),
        }
        assert!(Instant::now() < until, "not within {limit:?}: {what}; last: {last}");
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_becomes_true_is_given_back() {
        let mut looks = 0;
        let found = eventually("three looks", Duration::from_secs(5), async || {
            looks += 1;
            if looks == 3 { Ok("found") } else { Err("not yet") }
        });
        assert_eq!(found.await, "found");
    }

    #[tokio::test]
    #[should_panic(expected = "not within 30ms: pigs fly; last: no wings")]
    async fn what_never_becomes_true_fails_with_the_last_error() {
        eventually("pigs fly", Duration::from_millis(30), async || Err::<(), _>("no wings")).await;
    }

    #[tokio::test]
    #[should_panic(expected = "a look did not end")]
    async fn a_look_that_hangs_fails_too() {
        eventually("an end", Duration::from_millis(30), async || {
            std::future::pending::<()>().await;
            Ok::<(), &str>(())
        })
        .await;
    }
}
