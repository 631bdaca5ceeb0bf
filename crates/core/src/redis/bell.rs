//! Waiting for the doorbell, on a connection of its own: a blocking command holds up everything behind it. What is sent
//! behind it on purpose runs as soon as the wait is over, in the same turn of the server.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    types::{ClusterHash, CustomCommand, Value},
};
use tokio::time::timeout;

use super::{
    CustomRaw, OpenError, Options, Redis,
    kept::{Kept, Line},
    slot_of,
};
use crate::{StoreError, error::first_word, keys::ShardKeys};

/// How much longer than asked the client waits before it takes the connection for dead.
const GRACE: Duration = Duration::from_secs(5);
/// The same where a call waits behind: the caller has another way to send that.
const SHORT_GRACE: Duration = Duration::from_millis(500);

const CALL: &str = "bell";

/// One waiter: one BLPOP at a time over shards of one slot, or of one node without Cluster.
pub struct Bell {
    options: Arc<Options>,
    beside: Arc<Kept>,
    /// None: hung up, and not yet opened again.
    line: Mutex<Option<Line>>,
}

/// What came of a wait, and of the call that was sent behind it.
pub(crate) struct Waited {
    /// Whether the bell was heard, or its silence.
    pub(crate) heard: Result<(), StoreError>,
    /// The answer to the call.
    pub(crate) answer: Result<Value, Error>,
    /// The time from the end of the wait to the answer.
    pub(crate) took: Duration,
}

impl Bell {
    /// A waiter beside `redis`.
    pub fn open(redis: &Redis) -> Result<Self, OpenError> {
        let (options, beside) = (Arc::clone(&redis.options), Arc::clone(&redis.kept));
        let line = Mutex::new(Some(Line::connect(options.blocking_client(beside.turn())?)));
        Ok(Self { options, beside, line })
    }

    /// Closes the connection, whatever is under way: Redis drops a command that still waits there, and what was sent
    /// behind it. What it has begun goes on. The next wait opens another.
    pub fn hang_up(&self) {
        self.line().take();
    }

    /// Takes a token of one of `shards`: the place of the shard that rang, or none after `limit`.
    ///
    /// Not to be dropped half-way: the command would go on, and its token be lost. On Cluster all `shards` must lie in one
    /// slot.
    pub async fn wait(
        &self,
        shards: &[ShardKeys],
        limit: Duration,
    ) -> Result<Option<usize>, StoreError> {
        let Some(first) = shards.first() else { return Ok(None) };
        let hash = ClusterHash::Custom(slot_of(&first.bell));
        let keys = shards.iter().map(|shard| shard.bell.as_str());
        let command = CustomCommand::new_static("BLPOP", hash, true);
        let client = self.client()?;
        let call = client.custom_raw_value(command, words(keys, limit));
        let answer = match timeout(limit + GRACE, call).await {
            Ok(answer) => answer.map_err(|err| self.unheard(err))?,
            // Nobody answers on this connection any more.
            Err(_) => {
                self.hang_up();
                return Err(StoreError::new(CALL, silent()));
            }
        };
        let Value::Array(parts) = answer else { return Ok(None) };
        let key = parts.first().and_then(Value::as_bytes);
        Ok(shards.iter().position(|shard| Some(shard.bell.as_bytes()) == key))
    }

    /// Takes a token of `shard`, or none after `limit`, and sends `command` behind: Redis does not read on while the client
    /// waits, and then runs it at once. Not for Cluster.
    ///
    /// If the wait fails, the command may have run all the same. Whoever drops this half-way has to hang up: else both go
    /// on.
    pub(crate) async fn wait_then(
        &self,
        shard: &ShardKeys,
        limit: Duration,
        command: &'static str,
        behind: Vec<Value>,
    ) -> Waited {
        let client = match self.client() {
            Ok(client) => client,
            Err(err) => return Waited::failed(Err(err)),
        };
        // Not told that it blocks: then the client would hold back what is to stand behind it.
        let hash = || ClusterHash::Custom(slot_of(&shard.bell));
        let wait = CustomCommand::new_static("BLPOP", hash(), false);
        let wait = client.custom_raw_value(wait, words([shard.bell.as_str()].into_iter(), limit));
        let command = CustomCommand::new_static(command, hash(), false);
        let command = client.custom_raw_value(command, behind);
        let wait = async { (wait.await, Instant::now()) };
        // Sent in this order.
        let both = Box::pin(async { tokio::join!(biased; wait, command) });
        match timeout(limit + SHORT_GRACE, both).await {
            Ok(((heard, since), answer)) => Waited {
                heard: heard.map(drop).map_err(|err| self.unheard(err)),
                answer,
                took: since.elapsed(),
            },
            Err(_) => {
                self.hang_up();
                Waited::failed(Err(StoreError::new(CALL, silent())))
            }
        }
    }

    /// A wait that failed. No bell is rung at a replica: the next wait finds whoever is the primary by then.
    fn unheard(&self, err: Error) -> StoreError {
        if first_word(&err) == "READONLY" {
            self.hang_up();
        }
        StoreError::new(CALL, err)
    }

    fn client(&self) -> Result<Client, StoreError> {
        let mut line = self.line();
        if let Some(line) = line.as_ref() {
            return Ok(line.client.clone());
        }
        let closed = |_| Error::new(ErrorKind::Config, "the bell's connection cannot be set up");
        let new = self.options.blocking_client(self.beside.turn());
        let new = Line::connect(new.map_err(|err| StoreError::new(CALL, closed(err)))?);
        let client = new.client.clone();
        *line = Some(new);
        Ok(client)
    }

    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        // A connection or none, whatever panicked.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waited {
    fn failed(heard: Result<(), StoreError>) -> Self {
        Self { heard, answer: Err(silent()), took: Duration::ZERO }
    }
}

fn words<'a>(keys: impl Iterator<Item = &'a str>, limit: Duration) -> Vec<Value> {
    // 0 would be for ever.
    let limit = limit.as_millis().max(1);
    let limit = format!("{}.{:03}", limit / 1000, limit % 1000);
    keys.map(Value::from).chain([limit.into()]).collect()
}

fn silent() -> Error {
    Error::new(ErrorKind::Timeout, "the bell's connection is silent")
}
