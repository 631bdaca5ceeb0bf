//! Every Redis key, once, with its type and meaning. Nothing else builds one.
//!
//! | key | type | content |
//! |---|---|---|
//! | `pending`, `suspects` | zset | handle, scored by deadline |
//! | `delayed` | zset | handle, scored by due time |
//! | `leased` | zset | `fence|handle`, scored by the end of the lease: membership is ownership |
//! | `finished`, `dead` | zset | handle, scored by the end of retention |
//! | `request` | hash | key → tenant, id, lane, envelope and body; immutable |
//! | `ticket` | hash | key → packed small state |
//! | `result` | hash | key → terminal record |
//! | `answer` | hash | reserved: `fence|handle` → an answer that travels beside Lua |
//! | `sessions` | hash | session → last claim call, when, its handles |
//! | `meta` | hash | sequence, counters, policy, overrides |
//! | `lanes` | hash | lane → requests and bytes held |
//! | `bell` | list | doorbell tokens |
//! | `ended`, `cancel` | channel | what ended; what is to stop |
//! | `aside`, `lanes_aside`, `lanes_due` | | reserved for lanes |
//!
//! All keys of a shard share one hash tag, `{queue/shard}`. Two registries lie beside the shards.

use crate::model::{QueueName, SCHEMA};

/// Queue → its number of shards and its schema (hash).
pub const QUEUES: &str = "hf1:queues";
/// Session → worker name, version, concurrency, when it was last seen (hash). For eyes only.
pub const WORKERS: &str = "hf1:workers";

// The prefix names the schema: keys of another one are not ours.
const _: () = assert!(SCHEMA == 1);

/// How each key and channel of ours begins.
pub(crate) const OURS: &str = "hf1:";

/// The keys of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardKeys {
    /// The queue they belong to.
    pub queue: QueueName,
    /// Which of the queue's shards, from 0.
    pub shard: u32,
    /// Claimable requests.
    pub pending: String,
    /// Claimable requests that may kill their workers.
    pub suspects: String,
    /// Requests that wait for their time.
    pub delayed: String,
    /// Running leases.
    pub leased: String,
    /// Ended requests, kept for their readers.
    pub finished: String,
    /// Ended requests, kept whole for an operator.
    pub dead: String,
    /// What was submitted.
    pub request: String,
    /// The small state of each request.
    pub ticket: String,
    /// How each ended.
    pub result: String,
    /// Reserved for answers that travel beside Lua.
    pub answer: String,
    /// The last claim of each worker session.
    pub sessions: String,
    /// Counters, policy, overrides.
    pub meta: String,
    /// What each lane holds.
    pub lanes: String,
    /// Tokens for sleeping workers.
    pub bell: String,
    /// Channel: keys and generations that ended.
    pub ended: String,
    /// Channel: fences and handles to stop.
    pub cancel: String,
    /// Reserved for lanes that are full.
    pub aside: String,
    /// Reserved for lanes that are full.
    pub lanes_aside: String,
    /// Reserved for lanes that are full.
    pub lanes_due: String,
}

impl ShardKeys {
    /// The keys of shard `shard` of `queue`.
    pub fn new(queue: &QueueName, shard: u32) -> Self {
        let key = |name: &str| format!("hf1:{{{queue}/{shard}}}:{name}");
        Self {
            queue: queue.clone(),
            shard,
            pending: key("pending"),
            suspects: key("suspects"),
            delayed: key("delayed"),
            leased: key("leased"),
            finished: key("finished"),
            dead: key("dead"),
            request: key("request"),
            ticket: key("ticket"),
            result: key("result"),
            answer: key("answer"),
            sessions: key("sessions"),
            meta: key("meta"),
            lanes: key("lanes"),
            bell: key("bell"),
            ended: key("ended"),
            cancel: key("cancel"),
            aside: key("aside"),
            lanes_aside: key("lanes_aside"),
            lanes_due: key("lanes_due"),
        }
    }

    /// The shard as people name it: `queue/number`.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.queue, self.shard)
    }

    /// The key or channel of this name: what stands behind the hash tag.
    pub(crate) fn named(&self, name: &str) -> Option<&str> {
        let all = [
            &self.pending,
            &self.suspects,
            &self.delayed,
            &self.leased,
            &self.finished,
            &self.dead,
            &self.request,
            &self.ticket,
            &self.result,
            &self.answer,
            &self.sessions,
            &self.meta,
            &self.lanes,
            &self.bell,
            &self.ended,
            &self.cancel,
        ];
        let is_it = |key: &&&String| key.rsplit_once(':').is_some_and(|(_, last)| last == name);
        all.iter().find(is_it).map(|key| key.as_str())
    }

    /// The keys of all `shards` shards of a queue.
    pub fn all(queue: &QueueName, shards: u32) -> Vec<Self> {
        (0..shards).map(|shard| Self::new(queue, shard)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_shard_are_frozen() {
        let keys = ShardKeys::new(&QueueName::try_from("q").unwrap(), 3);
        assert_eq!(keys.pending, "hf1:{q/3}:pending");
        assert_eq!(keys.lanes_due, "hf1:{q/3}:lanes_due");
        assert_eq!(QUEUES, "hf1:queues");
        assert_eq!(WORKERS, "hf1:workers");
    }
}
