//! What a Redis answers, whatever it answers: each call of the roles and of operators, to a server that says what the
//! bytes make it say. Every frame is whole; what stands in it is anything.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::model::{
    Answer, Digest, Draft, Failure, FailureCode, Fence, Generation, Handle, Identity, Key, Record,
    Request, RequestId, Session, Ticket,
};
use holdfast_core::operate::{self, DeadFilter, Queue};
use holdfast_core::redis::ServerReport;
use holdfast_core::script::{
    Audit, Cancel, Claim, ClaimReply, Depth, Expire, Override, Overrule, OverruleMode, Policy,
    Promote, QueuePolicy, Read, Reclaim, Redrive, Register, Renew, Requests, Ring, Settle,
    SettleItem, SettleKind, Submission, Submit, Sweep,
};
use holdfast_core::{StoreError, keys::ShardKeys};
use tokio::runtime::Runtime;

use super::rules::tells_no_secret;
use crate::draws::Draws;
use crate::liar::Liar;

/// Longer than any call waits for a server that answers at once.
const PATIENCE: Duration = Duration::from_secs(20);

struct Stage {
    runtime: Runtime,
    liar: Liar,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    let liar = runtime.block_on(Liar::start());
    Stage { runtime, liar }
});

/// A call, and what the server answers to it and whatever follows it.
pub(super) fn replies(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let which = draws.byte();
    let Stage { runtime, liar } = &*STAGE;
    runtime.block_on(async {
        liar.answer_with(draws.rest()).await;
        let called = tokio::time::timeout(PATIENCE, Box::pin(call(which, liar)));
        if let Some(err) = called.await.expect("a call ends") {
            tells_no_secret(&err);
        }
    });
}

/// Makes a call; the text of its error.
async fn call(which: u8, liar: &Liar) -> Option<String> {
    let redis = &liar.redis;
    let shard = &ShardKeys::new(&queue().name, 0);
    let (fence, handle) = owner();
    let (keys, held, handles) = (&[handle.key(), key()], &[(fence, handle)], &[handle, handle]);
    let count = |asked: usize| move |replies: usize| assert_eq!(replies, asked, "one a row");
    match which % 26 {
        0 => told(claim(shard).run(redis), claimed).await,
        1 => {
            told(Read { shard, keys, whole: usize::MAX, tick: false }.run(redis), |it| {
                count(2)(it.len());
                for found in it.iter().flatten() {
                    let _ = (Record::peek(&found.record), Record::unpack(found.record.clone()));
                }
            })
            .await
        }
        2 => {
            told(Submit { shard, items: &[submission()] }.run(redis), |it| count(1)(it.len())).await
        }
        3 => told(Settle { shard, items: &settles() }.run(redis), |it| count(3)(it.len())).await,
        4 => told(Renew { shard, lease: PATIENCE, held }.run(redis), |it| count(1)(it.len())).await,
        5 => told(Cancel { shard, handles }.run(redis), |it| count(2)(it.len())).await,
        6 => {
            let items = &[(handle, handle.generation())];
            told(Redrive { shard, items, deadline: None }.run(redis), |it| count(1)(it.len())).await
        }
        7 => told(Reclaim { shard, limit: 9, named: &[] }.run(redis), drop).await,
        8 => told(Reclaim { shard, limit: 9, named: held }.run(redis), drop).await,
        9 => told(Promote { shard, limit: 9, named: &[] }.run(redis), drop).await,
        10 => told(Expire { shard, limit: 9 }.run(redis), drop).await,
        11 => told(Sweep { shard, limit: 9 }.run(redis), drop).await,
        12 => told(Policy { shard, policy: &policy(), write: true }.run(redis), drop).await,
        13 => {
            let (word, mode) = (Override::Limit(Some(7)), OverruleMode::Decide);
            let shards = NonZeroU32::MIN;
            told(Overrule { shard, shards, word, mode, version: 1 }.run(redis), drop).await
        }
        14 => told(Register::Queue(&queue().name, NonZeroU32::MIN).run(redis), drop).await,
        15 => told(Ring { shard }.run(redis), drop).await,
        16 => told(Depth { shard }.run(redis), drop).await,
        17 => told(Audit { shard, keys }.run(redis), |it| count(2)(it.len())).await,
        18 => {
            told(Requests { shard, keys }.run(redis), |it| {
                count(2)(it.len());
                it.into_iter().flatten().for_each(|packed| drop(Request::unpack(packed)));
            })
            .await
        }
        19 => told(ServerReport::read(redis), |it| drop(it.faults())).await,
        20 => {
            told(operate::queues(redis), |it| {
                assert!(it.iter().all(|queue| queue.shards.get() <= 256), "as the settings allow");
            })
            .await
        }
        21 => told(operate::worker_rows(redis, &[queue()]), drop).await,
        22 => {
            told(operate::lease_rows(redis, &[queue()], 300), |it| {
                assert!(it.rows.len() <= 300);
            })
            .await
        }
        23 => told(operate::queue_rows(redis, &[queue()]), |it| assert_eq!(it.len(), 1)).await,
        24 => {
            let (queue, identity) = (queue(), identity());
            let why = Box::pin(operate::why(redis, &queue, &identity)).await;
            why.err().map(|err| err.to_string())
        }
        _ => {
            let filter = DeadFilter::default();
            let queue = queue();
            let rows = Box::pin(operate::dead_rows(redis, &queue, &filter, None, 9)).await;
            rows.map(|page| assert!(page.rows.len() <= 9)).err().map(|err| err.to_string())
        }
    }
}

/// Holds a good answer to its rules.
fn told<'a, T>(
    call: impl Future<Output = Result<T, StoreError>> + 'a,
    holds: impl FnOnce(T) + 'a,
) -> Pin<Box<dyn Future<Output = Option<String>> + 'a>> {
    let call = Box::pin(call);
    Box::pin(async move { call.await.map(holds).err().map(|err| err.to_string()) })
}

fn claim(shard: &ShardKeys) -> Claim<'_> {
    let (fence, _) = owner();
    Claim {
        shard,
        fence,
        free: 9,
        lease: PATIENCE,
        budget: 1 << 20,
        may_take_suspect: true,
        trusted_until: 0,
        along: 1 << 14,
    }
}

fn claimed(reply: ClaimReply) {
    let ClaimReply::Claimed(claimed) = reply else { return };
    for lease in claimed.leases {
        if let Ok(ticket) = lease.ticket {
            let _: (bool, Handle) = (ticket.is_suspect(), ticket.handle(lease.handle.key()));
        }
        if let Some(packed) = lease.request {
            drop(Request::unpack(packed));
        }
    }
}

fn queue() -> Queue {
    Queue { name: "q".try_into().expect("a name"), shards: NonZeroU32::MIN }
}

fn identity() -> Identity {
    let id = RequestId::try_from("i").expect("an id");
    Identity { tenant: "t".try_into().expect("a name"), id }
}

fn key() -> Key {
    identity().place(NonZeroU32::MIN).key
}

fn owner() -> (Fence, Handle) {
    let handle = Handle::new(7, Generation::from([3; 8]), key());
    (Fence::new(Session::from([0xab; 8]), 42), handle)
}

fn submission() -> Submission {
    let request = Request {
        identity: identity(),
        lane: String::new(),
        envelope: Default::default(),
        body: Bytes::from_static(b"{}"),
    };
    Submission::new(key(), &draft(), &request).expect("a small request")
}

fn draft() -> Draft {
    let (generation, digest) = (Generation::from([3; 8]), Digest([5; 32]));
    Draft { generation, digest, deadline: 2_000_000_000_000, not_before: 0, body_size: 2 }
}

fn settles() -> [SettleItem; 3] {
    let (fence, handle) = owner();
    let failure = Failure { code: FailureCode::Status, status: 503 };
    let kinds = [
        SettleKind::Ack { status: 200, answer: Answer::default() },
        SettleKind::Retry { delay: PATIENCE, failure },
        SettleKind::Release { sent: false, failure: None },
    ];
    kinds.map(|kind| SettleItem { fence, handle, kind })
}

fn policy() -> QueuePolicy {
    QueuePolicy {
        shards: NonZeroU32::MIN,
        max_lapses: 5,
        retention: PATIENCE,
        dead_retention: PATIENCE,
        capacity: 1000,
        capacity_bytes: 1 << 30,
        in_flight: None,
    }
}

/// What a server would rightly say: pieces for its lies.
pub(crate) fn truths() -> [Vec<u8>; 5] {
    let (fence, handle) = owner();
    let ticket = draft().pack(&identity(), "");
    assert!(Ticket::unpack(ticket.clone()).is_ok());
    let member = [&fence.as_bytes()[..], b"|", handle.as_bytes()].concat();
    [
        ticket.to_vec(),
        handle.as_bytes().to_vec(),
        key().as_bytes().to_vec(),
        member,
        fence.session().map(|session| session.to_string().into_bytes()).unwrap_or_default(),
    ]
}
