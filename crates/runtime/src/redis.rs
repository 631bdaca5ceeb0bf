//! Redis as the ops port tells of it: from memory, refreshed when somebody asks.
//!
//! A process that has nothing to do sends Redis nothing, and so would not notice that it hangs. So
//! a probe tells what is known, and has it looked up for the next one.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::Redis;
use holdfast_core::redis::Trouble;
use holdfast_core::script::{Register, registered_queues};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long a look is good for, however often somebody asks.
const REST: Duration = Duration::from_secs(1);

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
            Some(Trouble::Denied) => Err(denied(&self.redis.denied_commands())),
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
            sleep(REST).await;
            // A call that every role may make: INFO or PING may be denied to us without harm. The
            // client keeps what came of it.
            let Ok(queues) = registered_queues(&self.redis).await else { continue };
            // A read proves no write, and a process with nothing to do makes no other call. This
            // one says what stands there already.
            if self.redis.trouble() == Some(Trouble::ReadOnly)
                && let Some((queue, shards)) = queues.first_key_value()
            {
                let _ = Register::Queue(queue, *shards).run(&self.redis).await;
            }
        }
    }
}

/// What is denied, as far as Redis says it.
fn denied(commands: &[String]) -> String {
    match commands {
        [] => Trouble::Denied.word().to_owned(),
        commands => format!("{}: {}", Trouble::Denied.word(), commands.join(" ")),
    }
}

#[cfg(test)]
mod tests;
