//! Many requests that wait in a queue of their own, which nobody works on.

use std::num::NonZeroU32;
use std::time::Duration;

use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::redis::Options;
use holdfast_core::script::{MAX_ITEMS, Policy, QueuePolicy, Submit, SubmitReply};
use holdfast_testkit::RedisServer;

use crate::protocol::holdfast::submission;

/// Bytes of a body.
const BODY: usize = 1024;

/// Takes in so many.
pub(super) async fn build(server: &RedisServer, count: usize) {
    let mut options = Options::new(server.url());
    options.command_timeout = Duration::from_secs(60);
    let redis = Redis::open(options).expect("a client");
    let keys = ShardKeys::new(&"backlog".try_into().expect("a name"), 0);
    let policy = QueuePolicy {
        shards: NonZeroU32::MIN,
        max_lapses: 5,
        retention: Duration::from_secs(3600),
        dead_retention: Duration::from_secs(3600),
        capacity: 100_000_000,
        capacity_bytes: 1 << 40,
        in_flight: None,
    };
    Policy { shard: &keys, policy: &policy, write: true }.run(&redis).await.expect("a policy");
    for from in (0..count).step_by(MAX_ITEMS) {
        let numbers = from..count.min(from + MAX_ITEMS);
        let items: Vec<_> = numbers.map(|number| submission(number, BODY)).collect();
        let replies = Submit { shard: &keys, items: &items }.run(&redis).await.expect("submits");
        let is_taken = |reply: &SubmitReply| matches!(reply, SubmitReply::Accepted(_));
        assert!(replies.iter().all(is_taken), "all are new");
    }
}
