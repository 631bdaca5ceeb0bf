//! 2: one terminal record a generation, published by the script that ends it.

use holdfast_core::{
    Redis,
    model::{Fence, Handle, Home, Outcome},
    redis::{Message, Options, Subscriber},
    script::{Burial, CancelReply, RenewReply, SettleKind, SettleReply},
};
use tokio::time::timeout;

use crate::fixture::{Item, LIMIT, Shard, ack, bury, release, retry};

/// What may end a running request.
#[derive(Clone, Copy, Debug)]
enum End {
    Ack,
    Bury,
    CancelAndRetry,
    CancelAndRelease,
    LastLapse,
    LateRetry,
}

const ENDS: [(End, Outcome); 6] = [
    (End::Ack, Outcome::Answered),
    (End::Bury, Outcome::GaveUp),
    (End::CancelAndRetry, Outcome::Cancelled),
    (End::CancelAndRelease, Outcome::Cancelled),
    (End::LastLapse, Outcome::KilledWorkers),
    (End::LateRetry, Outcome::DeadlineExceeded),
];

/// A request at its last lapse, running.
async fn at_the_brink(shard: &Shard, id: &str) -> (Fence, Handle) {
    let handle = shard.accept(&Item::new(id)).await;
    for _ in 1..shard.policy.max_lapses {
        shard.lease(handle).await;
        shard.die(&[handle]).await;
    }
    (shard.lease(handle).await, handle)
}

/// Tries to end it, which may be too late.
async fn try_to_end(shard: &Shard, fence: Fence, handle: Handle, end: End) {
    let settle = async |kind: SettleKind| {
        shard.settle(fence, handle, kind).await;
    };
    match end {
        End::Ack => settle(ack("an answer")).await,
        End::Bury => settle(bury()).await,
        End::CancelAndRetry => {
            shard.cancel(handle).await;
            settle(retry(5)).await;
        }
        End::CancelAndRelease => {
            shard.cancel(handle).await;
            settle(release(true)).await;
        }
        End::LastLapse => {
            if shard.leases().await.iter().any(|lease| lease.1 == handle) {
                shard.lapse(&[handle]).await;
            }
            shard.reclaim().await;
        }
        End::LateRetry => settle(retry(u64::from(u32::MAX) * 4000)).await,
    }
}

#[tokio::test]
async fn whichever_end_comes_first_is_the_record_and_no_later_one_changes_it() {
    let shard = Shard::start().await;
    for (number, (first, outcome)) in ENDS.into_iter().enumerate() {
        let (fence, handle) = at_the_brink(&shard, &format!("r{number}")).await;
        try_to_end(&shard, fence, handle, first).await;
        let record = shard.record_bytes(handle.key()).await;
        assert_eq!(shard.outcome(handle.key()).await, outcome, "{first:?}");
        for (later, _) in ENDS {
            try_to_end(&shard, fence, handle, later).await;
            shard.renew(fence, handle).await;
            shard.expire().await;
            assert_eq!(shard.record_bytes(handle.key()).await, record, "{first:?}, then {later:?}");
        }
        shard.assert_whole().await;
    }
}

#[tokio::test]
async fn each_outcome_ends_in_its_home() {
    let shard = Shard::start().await;
    for (number, (end, outcome)) in ENDS.into_iter().enumerate() {
        let (fence, handle) = at_the_brink(&shard, &format!("r{number}")).await;
        try_to_end(&shard, fence, handle, end).await;
        let home = if outcome.is_dead() { Home::Dead } else { Home::Finished };
        assert_eq!(shard.home(handle.key()).await, Some(home), "{outcome:?}");
    }
    for burial in [Burial::GaveUp, Burial::Unusable, Burial::AnswerTooLarge] {
        let outcome = Outcome::from(burial);
        let (fence, handle) = shard.running(&Item::new(outcome.word())).await;
        let SettleKind::Bury { failure, answer, .. } = bury() else { panic!("not a bury") };
        let kind = SettleKind::Bury { outcome: burial, failure, answer };
        assert_eq!(shard.settle(fence, handle, kind).await, SettleReply::Done);
        assert_eq!(shard.outcome(handle.key()).await, outcome);
    }
    shard.assert_whole().await;
}

#[tokio::test]
async fn each_end_is_told_once_on_the_channel_and_each_cancel_to_the_one_who_runs_it() {
    let shard = Shard::start().await;
    let channels = vec![shard.keys.ended.clone(), shard.keys.cancel.clone()];
    let mut heard = Subscriber::open(&shard.redis, channels).unwrap();
    assert_eq!(heard.next().await, Message::Subscribed);
    let mut next = async || loop {
        // It may subscribe once more when it learns that it is connected.
        if let Message::Heard { channel, bytes } = timeout(LIMIT, heard.next()).await.unwrap() {
            break (channel, bytes.to_vec());
        }
    };
    let ended = |handle: Handle| {
        let told = [&handle.key().as_bytes()[..], handle.generation().as_bytes()].concat();
        (shard.keys.ended.clone(), told)
    };

    let (fence, a) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.cancel(a).await, CancelReply::Asked);
    let stop = [&fence.as_bytes()[..], a.as_bytes()].concat();
    assert_eq!(next().await, (shard.keys.cancel.clone(), stop));
    assert_eq!(shard.settle(fence, a, ack("done")).await, SettleReply::Done);
    assert_eq!(next().await, ended(a));
    // What ends nothing tells nothing: the next message is of the next end.
    shard.settle(fence, a, ack("done")).await;
    shard.cancel(a).await;
    let b = shard.accept(&Item::new("b")).await;
    shard.cancel(b).await;
    assert_eq!(next().await, ended(b));
}

#[tokio::test]
async fn who_may_tell_nobody_of_an_end_ends_all_the_same() {
    let mut shard = Shard::start().await;
    // What ACL SETUSER gives without a word about channels: none.
    let rules = ["on", "nopass", "resetchannels", "~hf1:*", "+@all"];
    let mut words: Vec<&dyn AsRef<[u8]>> = vec![&"ACL", &"SETUSER", &"mute"];
    words.extend(rules.iter().map(|rule| rule as &dyn AsRef<[u8]>));
    shard.tell(&words).await;
    let may = shard.tell(&[&"ACL", &"DRYRUN", &"mute", &"SPUBLISH", &shard.keys.ended, &"x"]).await;
    assert_ne!(may.text(), Some("OK"));
    let url = shard.server.url().replace("redis://", "redis://mute:any@");
    shard.redis = Redis::open(Options::new(url)).unwrap();
    for (number, (end, outcome)) in ENDS.into_iter().enumerate() {
        let (fence, handle) = at_the_brink(&shard, &format!("r{number}")).await;
        try_to_end(&shard, fence, handle, end).await;
        assert_eq!(shard.outcome(handle.key()).await, outcome, "{end:?}");
        shard.assert_whole().await;
    }
    let waits = shard.accept(&Item::new("waits")).await;
    assert_eq!(shard.cancel(waits).await, CancelReply::Cancelled);
    assert_eq!(shard.cancel(waits).await, CancelReply::Ended(Outcome::Cancelled));
    let (fence, runs) = shard.running(&Item::new("runs")).await;
    assert_eq!(shard.cancel(runs).await, CancelReply::Asked);
    assert!(matches!(shard.renew(fence, runs).await, RenewReply::Cancel(_)));
    shard.assert_whole().await;
}

#[tokio::test]
async fn an_attempt_that_was_not_sent_is_taken_back_and_every_other_counts() {
    let shard = Shard::start().await;
    let a = shard.accept(&Item::new("a")).await;
    for (kind, attempts) in
        [(release(false), 0), (release(true), 1), (release(false), 1), (retry(0), 2)]
    {
        let owner = shard.lease(a).await;
        assert_eq!(shard.settle(owner, a, kind).await, SettleReply::Done);
        assert_eq!(shard.find(a.key()).await.unwrap().ticket.attempts, attempts);
    }
    let owner = shard.lease(a).await;
    assert_eq!(shard.settle(owner, a, ack("done")).await, SettleReply::Done);
    assert_eq!(shard.record(a.key()).await.attempts, 3);
    shard.assert_whole().await;
}
