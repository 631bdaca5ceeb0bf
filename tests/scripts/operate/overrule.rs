//! Pause and limit over a whole queue, as operators say it.

use std::{num::NonZeroU32, time::Duration};

use holdfast_core::{
    Redis,
    keys::ShardKeys,
    model::Session,
    operate::{ActError, Queue, carry_on, overrides, overrule},
    redis::Options,
    script::{Override, Overrule, OverruleMode, OverruleReply},
};
use holdfast_testkit::{
    Proxy, eventually,
    proxy::{Fault, When},
};

use crate::fixture::{Item, Shard, assert_same, fence};

const EIGHT: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// A queue of eight shards.
async fn eight() -> (Shard, Queue) {
    let shard = Shard::with(|policy| policy.shards = EIGHT).await;
    for number in 1..8 {
        shard.beside(number).await;
    }
    let queue = super::queue(&shard);
    (shard, queue)
}

/// A field of `meta` in each shard.
async fn each(shard: &Shard, queue: &Queue, field: &str) -> Vec<Option<i64>> {
    let mut values = Vec::new();
    for keys in queue.keys() {
        values.push(shard.tell(&[&"HGET", &keys.meta, &field]).await.int());
    }
    values
}

#[tokio::test]
async fn a_pause_reaches_all_shards_and_a_resume_undoes_it() {
    let (shard, queue) = eight().await;
    shard.accept(&Item::new("a")).await;
    let paused = overrule(&shard.redis, &queue, Override::Paused(true), None, false).await.unwrap();
    assert_eq!((paused.outcome.as_str(), paused.shards_changed, paused.pending), ("set", 8, 1));
    assert_eq!(each(&shard, &queue, "paused").await, [Some(1); 8]);
    assert_eq!(shard.claim(fence(Session::random(), 1), 1).await, []);
    let again = overrule(&shard.redis, &queue, Override::Paused(true), None, false).await.unwrap();
    assert_eq!((again.outcome.as_str(), again.shards_changed), ("already", 0));
    let resumed =
        overrule(&shard.redis, &queue, Override::Paused(false), None, false).await.unwrap();
    assert_eq!((resumed.after.paused.version, resumed.shards_changed), (2, 8));
    assert_eq!(each(&shard, &queue, "paused").await, [None; 8]);
    assert_eq!(shard.claim(fence(Session::random(), 1), 1).await.len(), 1);
}

#[tokio::test]
async fn a_dry_run_says_what_would_change_and_writes_nothing() {
    let (shard, queue) = eight().await;
    let before = shard.dump().await;
    let told = overrule(&shard.redis, &queue, Override::Limit(Some(20)), None, true).await.unwrap();
    assert_eq!(told.outcome, "dry-run");
    assert_eq!((told.before.limit.value, told.after.limit.value), (None, Some(20)));
    assert_eq!((told.before.limit.version, told.after.limit.version), (0, 1));
    assert_same("a dry run", &before, &shard.dump().await);
}

// 27
#[tokio::test]
async fn of_two_operators_one_is_told_that_the_other_was_faster_and_all_shards_say_one_thing() {
    let (shard, queue) = eight().await;
    let say = async |limit, seen| {
        overrule(&shard.redis, &queue, Override::Limit(Some(limit)), seen, false).await
    };
    // Both saw version 0, and both speak at once.
    let (ten, twenty) = tokio::join!(say(10, Some(0)), say(20, Some(0)));
    let won = match (&ten, &twenty) {
        (Ok(_), Err(ActError::Overtaken { version: 1 })) => 10,
        (Err(ActError::Overtaken { version: 1 }), Ok(_)) => 20,
        other => panic!("{other:?}"),
    };
    assert_eq!(each(&shard, &queue, "limit_version").await, [Some(1); 8]);
    assert_eq!(each(&shard, &queue, "limit_total").await, [Some(won); 8]);
    // A late copy of the word that lost changes nothing.
    let before = shard.dump().await;
    let late = say(30, Some(0)).await;
    assert!(matches!(late, Err(ActError::Overtaken { version: 1 })), "{late:?}");
    assert_same("a late limit", &before, &shard.dump().await);
}

// 27
#[tokio::test]
async fn a_late_pause_is_told_that_the_resume_stands() {
    let (shard, queue) = eight().await;
    let say = async |paused, seen| {
        overrule(&shard.redis, &queue, Override::Paused(paused), seen, false).await
    };
    say(true, Some(0)).await.unwrap();
    say(false, Some(1)).await.unwrap();
    let before = shard.dump().await;
    assert!(matches!(say(true, Some(0)).await, Err(ActError::Overtaken { version: 2 })));
    assert_same("a late pause", &before, &shard.dump().await);
    assert!(!overrides(&shard.redis, &queue).await.unwrap().paused.value);
}

// 27
#[tokio::test]
async fn what_was_not_spread_to_the_end_is_carried_on_to_all_shards() {
    let (shard, queue) = eight().await;
    let first = ShardKeys::new(&queue.name, 0);
    for (word, version) in [(Override::Limit(Some(20)), 0), (Override::Paused(true), 0)] {
        let mode = OverruleMode::Decide;
        let decided = Overrule { shard: &first, shards: EIGHT, word, mode, version };
        assert_eq!(decided.run(&shard.redis).await.unwrap(), OverruleReply::Set(1));
    }
    // Its operator dies here.
    assert_eq!(carry_on(&shard.redis, &queue).await.unwrap(), 14, "two words for seven shards");
    assert_eq!(each(&shard, &queue, "limit_version").await, [Some(1); 8]);
    assert_eq!(each(&shard, &queue, "paused").await, [Some(1); 8]);
    let before = shard.dump().await;
    assert_eq!(carry_on(&shard.redis, &queue).await.unwrap(), 0);
    assert_same("nothing to carry on", &before, &shard.dump().await);
}

/// With its node, or by somebody's hand: the others would take no word of it any more, and claim, or not, for good.
#[tokio::test]
async fn a_first_shard_that_lost_the_last_word_has_it_back_from_the_others() {
    let (shard, queue) = eight().await;
    let say = async |paused| {
        overrule(&shard.redis, &queue, Override::Paused(paused), None, false).await.unwrap()
    };
    let first = ShardKeys::new(&queue.name, 0);
    let forget: [&dyn AsRef<[u8]>; 4] = [&"HDEL", &first.meta, &"paused", &"paused_version"];

    say(true).await;
    shard.tell(&forget).await;
    let resumed = say(false).await;
    assert_eq!((resumed.outcome.as_str(), resumed.after.paused.version), ("set", 2));
    assert_eq!(each(&shard, &queue, "paused").await, [None; 8]);

    say(true).await;
    shard.tell(&forget).await;
    assert_eq!(carry_on(&shard.redis, &queue).await.unwrap(), 1);
    assert_eq!(each(&shard, &queue, "paused").await, [Some(1); 8]);
    assert_eq!(each(&shard, &queue, "paused_version").await, [Some(3); 8]);
}

/// How much waits in a shard is beside the point of a pause.
#[tokio::test]
async fn counts_that_nobody_answers_hold_up_a_pause_no_longer_than_one_call() {
    let (shard, queue) = eight().await;
    let proxy = Proxy::start(shard.server.port()).await;
    let command_timeout = Duration::from_millis(500);
    let options = Options { command_timeout, ..Options::new(proxy.url()) };
    let redis = Redis::open(options).unwrap();
    eventually("it answers", Duration::from_secs(10), async || {
        overrides(&redis, &queue).await.map(drop).map_err(|err| err.to_string())
    })
    .await;
    // Of all that is called here, counts alone are asked of this set; and each that waits ends its connection.
    let is_count = |words: &[Vec<u8>]| words.iter().any(|word| word.ends_with(b":suspects"));
    let counts = proxy.inject(Fault::Swallow, When::Each, is_count);
    let paused = overrule(&redis, &queue, Override::Paused(true), None, false).await.unwrap();
    assert_eq!((paused.outcome.as_str(), paused.shards_changed), ("set", 8));
    assert_eq!(counts.fired(), 1, "all wait on one connection");
}

#[tokio::test]
async fn a_limit_that_would_leave_a_shard_nothing_is_refused() {
    let (shard, queue) = eight().await;
    let before = shard.dump().await;
    let refused = overrule(&shard.redis, &queue, Override::Limit(Some(7)), None, false).await;
    assert!(matches!(refused, Err(ActError::TooSmall { least: 8 })), "{refused:?}");
    assert_same("a refused limit", &before, &shard.dump().await);
}
