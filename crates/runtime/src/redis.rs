//! Redis as the ops port tells of it: from memory, refreshed when somebody asks.
//!
//! A process that has nothing to do sends Redis nothing, and so would not notice that it hangs. So
//! a probe tells what is known, and has it looked up for the next one.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::Redis;
use holdfast_core::redis::Trouble;
use holdfast_core::script::registered_queues;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long a look is good for, however often somebody asks.
const REST: Duration = Duration::from_secs(1);

/// The same where Redis answers and refuses writes: a look would be answered and hide that.
const LONG_REST: Duration = Duration::from_secs(10);

/// What is known of Redis, and the wish to know more.
#[derive(Clone)]
pub(crate) struct Watched {
    redis: Redis,
    asked: Arc<Notify>,
}

impl Watched {
    pub(crate) fn new(redis: Redis) -> Self {
        Self { redis, asked: Arc::default() }
    }

    /// Why Redis can't be used, as far as it is known.
    pub(crate) fn probe(&self) -> Result<(), String> {
        self.asked.notify_one();
        match self.redis.trouble() {
            None => Ok(()),
            Some(trouble) => Err(trouble.word().to_owned()),
        }
    }

    /// Keeps what is known up to date until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = self.redis.watch(stop) => {}
            never = self.look() => match never {},
        }
    }

    async fn look(&self) -> std::convert::Infallible {
        loop {
            self.asked.notified().await;
            let rest = match self.redis.trouble() {
                Some(Trouble::ReadOnly) => LONG_REST,
                _ => REST,
            };
            sleep(rest).await;
            // A call that every role may make: INFO or PING may be denied to us without harm. The
            // client keeps what came of it.
            let _ = registered_queues(&self.redis).await;
        }
    }
}

#[cfg(test)]
mod tests;
