//! One sentence and one suggestion for every home and every hold.

mod breaker;
mod ended;
mod suspects;
mod workers;

use std::num::NonZeroU32;

use holdfast_core::{
    keys::WORKERS,
    model::{Handle, Session},
    operate::{Hold, Why},
    script::{Claim, Override, Register, SettleReply},
};

use super::{shape, why};
use crate::fixture::{FAR, Item, Shard, ack, bury, fence, retry};

/// What is said: the hold, the sentence, the suggestion, times left out.
#[track_caller]
fn assert_told(why: &Why, hold: Hold, sentence: &str, suggestion: &str) {
    let told = (why.hold, shape(&why.sentence), shape(&why.suggestion));
    assert_eq!(told, (hold, sentence.to_owned(), suggestion.to_owned()));
}

/// A worker that says that it is there.
async fn worker(shard: &Shard, name: &str) -> Session {
    let session = Session::random();
    let text = format!("{{\"name\":\"{name}\",\"version\":\"1\",\"concurrency\":4}}");
    Register::Worker(session, &text).run(&shard.redis).await.unwrap();
    session
}

/// The same, and it has asked the shard for work.
async fn asking(shard: &Shard, name: &str) -> Session {
    let session = worker(shard, name).await;
    shard.run(Claim { free: 0, ..shard.ask(fence(session, 1)) }).await;
    session
}

/// Moves the last sight of a worker so far back.
async fn not_seen_for(shard: &Shard, session: Session, ms: u64) {
    let seen = (shard.now().await - ms).to_be_bytes();
    let told = shard.tell(&[&"HGET", &WORKERS, &session.to_string()]).await;
    let text = told.bytes().map_or(&b"{\"name\":\"gone\"}"[..], |row| &row[8..]);
    let row = [seen.as_slice(), text].concat();
    shard.tell(&[&"HSET", &WORKERS, &session.to_string(), &row]).await;
    let asked = shard.tell(&[&"HGET", &shard.keys.sessions, &session.to_string()]).await;
    if let Some(row) = asked.bytes() {
        let row = [&row[..16], &seen, &row[24..]].concat();
        shard.tell(&[&"HSET", &shard.keys.sessions, &session.to_string(), &row]).await;
    }
}

/// Moves a member of a set to another score.
async fn score(shard: &Shard, key: &str, member: &[u8], score: u64) {
    shard.tell(&[&"ZADD", &key, &"XX", &score.to_string(), &member]).await;
}

const DOCTOR: &str =
    "Submit it anew under another id, and look what Redis lost: holdfastctl doctor --queue q.";

#[tokio::test]
async fn what_is_not_there_is_unknown_also_to_another_tenant() {
    let shard = Shard::start().await;
    let told = why(&shard, "a").await;
    assert_eq!((told.state.as_str(), told.generation.as_ref()), ("unknown", None));
    assert_told(
        &told,
        Hold::Unknown,
        "Nothing is kept under this id for tenant t in queue q.",
        "Check queue, tenant and id; it was never accepted there, or its retention is over.",
    );
}

#[tokio::test]
async fn what_lost_its_ticket_its_home_or_its_body_is_told_so() {
    let shard = Shard::start().await;
    let items = Item::many("r", 4);
    let handles = shard.accept_all(&items).await;
    shard.tell(&[&"HDEL", &shard.keys.ticket, &handles[0].key().as_bytes()]).await;
    assert_told(
        &why(&shard, "r0").await,
        Hold::TicketMissing,
        "Its ticket is missing, though its request is there: whoever meets it in a home next ends it as unusable.",
        DOCTOR,
    );
    shard.tell(&[&"HSET", &shard.keys.ticket, &handles[1].key().as_bytes(), &b"\x09"]).await;
    assert_told(
        &why(&shard, "r1").await,
        Hold::TicketMissing,
        "Its ticket cannot be read by this version, though its request is there: whoever meets it in a home next ends it as unusable.",
        DOCTOR,
    );
    shard.tell(&[&"ZREM", &shard.keys.pending, &handles[2].as_bytes()]).await;
    let told = why(&shard, "r2").await;
    assert_eq!(told.state, "nowhere");
    assert_told(
        &told,
        Hold::Nowhere,
        "Its ticket is there, but it is in no home: Redis lost where it was, and nobody will take it.",
        DOCTOR,
    );
    shard.tell(&[&"HDEL", &shard.keys.request, &handles[3].key().as_bytes()]).await;
    assert_told(
        &why(&shard, "r3").await,
        Hold::BodyMissing,
        "It is pending, but its body is missing in Redis: whoever takes it next ends it as unusable.",
        DOCTOR,
    );
}

#[tokio::test]
async fn what_waits_past_its_deadline_is_late() {
    let shard = Shard::start().await;
    let deadline = shard.now().await + 50;
    shard.accept(&Item::new("a").by(deadline)).await;
    shard.until(deadline).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Late,
        "Its deadline passed T ago: the next claim or the reclaimer's next pass ends it as deadline-exceeded.",
        "Nothing, if that is a moment ago; else see that a reclaimer runs (after a leap of Redis' clock it rests for 10 minutes).",
    );
}

#[tokio::test]
async fn what_waits_behind_a_pause_says_so_whatever_else_there_is() {
    let shard = Shard::with(|policy| policy.in_flight = Some(1)).await;
    shard.running(&Item::new("runs")).await;
    shard.accept(&Item::new("a")).await;
    shard.decide(Override::Paused(true), 0).await;
    let told = why(&shard, "a").await;
    assert_eq!(told.state, "pending");
    assert_told(
        &told,
        Hold::Paused,
        "Queue q is paused by an operator: nothing of it is claimed, and 1 request waits in its shard.",
        "Let it go on: holdfastctl queue resume q.",
    );
}

#[tokio::test]
async fn what_waits_behind_a_limit_says_whose_it_is() {
    let shard = Shard::with(|policy| policy.in_flight = Some(1)).await;
    shard.running(&Item::new("runs").by(FAR - 2)).await;
    shard.accept_all(&[Item::new("first").by(FAR - 1), Item::new("a")]).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::InFlightLimit,
        "1 of at most 1 is in flight in its shard, by the settings' in_flight: it waits until that one ends, with 1 before it.",
        "Raise it: holdfastctl queue limit q N, or in_flight in the settings.",
    );
    shard.decide(Override::Limit(Some(1)), 0).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::InFlightLimit,
        "1 of at most 1 is in flight in its shard, by an operator's limit of 1 over all shards: it waits until that one ends, with 1 before it.",
        "Raise or clear the limit: holdfastctl queue limit q N, or --clear.",
    );
}

#[tokio::test]
async fn what_could_run_says_where_the_workers_are() {
    let shard = Shard::start().await;
    shard.accept(&Item::new("a")).await;
    let start = "Start a worker, or see why it does not run: holdfastctl worker ls.";
    assert_told(
        &why(&shard, "a").await,
        Hold::NoWorker,
        "It can be claimed, but no worker is there: none was ever seen.",
        start,
    );
    not_seen_for(&shard, Session::random(), 600_000).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::NoWorker,
        "It can be claimed, but no worker is there: the last one was seen T ago.",
        start,
    );
    let ended = worker(&shard, "ended").await;
    Register::Ended(ended).run(&shard.redis).await.unwrap();
    assert_told(
        &why(&shard, "a").await,
        Hold::NoWorker,
        "It can be claimed, but no worker is there: the last one ended T ago.",
        start,
    );
    worker(&shard, "elsewhere").await;
    assert_told(
        &why(&shard, "a").await,
        Hold::NotServed,
        "It can be claimed, but the one worker that is there has never asked queue q for work.",
        "See that worker.queues of its settings names q, and that it has it in [queues].",
    );
}

#[tokio::test]
async fn what_is_in_line_says_its_place_and_about_how_long() {
    let shard = Shard::start().await;
    let now = shard.now().await;
    let session = asking(&shard, "gpu-7").await;
    let items: Vec<Item> =
        (0..4).map(|at| Item::new(format!("r{at}")).by(now + 3_600_000 + at)).collect();
    let handles = shard.accept_all(&items).await;
    assert_told(
        &why(&shard, "r0").await,
        Hold::Line,
        "It is the next to be claimed in its shard: nothing ended there in the last minute; 1 worker is there, and it has T left until its deadline.",
        "If it does not move: the slots that the workers have for this queue (its concurrency at each) may be full, or their target slow; see holdfastctl lease ls, and worker ls, which tells the slots of all queues together.",
    );
    let owner = fence(session, 2);
    assert_eq!(shard.claim(owner, 1).await.len(), 1);
    assert_eq!(shard.settle(owner, handles[0], ack("done")).await, SettleReply::Done);
    let told = why(&shard, "r3").await;
    assert_told(
        &told,
        Hold::Line,
        "It waits in line with 2 before it in its shard: about T at the rate of the last minute, in which 1 ended; 1 worker is there, and it has T left until its deadline.",
        "Nothing: it runs in its turn. More workers or concurrency make the line shorter.",
    );
    let line = told.line.unwrap();
    assert_eq!((line.ahead, line.ended_last_minute, line.estimate_seconds), (2, 1, Some(120)));
    let soon = shard.now().await + 60_000;
    shard
        .accept_all(&[Item::new("s0").by(soon), Item::new("s1").by(soon), Item::new("s2").by(soon)])
        .await;
    assert_eq!(
        why(&shard, "s2").await.suggestion,
        "It will hardly make its deadline: add workers or concurrency, or make its target faster."
    );
}

#[tokio::test]
async fn what_backs_off_says_until_when_and_after_what() {
    let shard = Shard::start().await;
    let (owner, handle) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.settle(owner, handle, retry(60_000)).await, SettleReply::Done);
    let told = why(&shard, "a").await;
    assert_eq!((told.state.as_str(), told.next_try_at.is_some()), ("delayed", true));
    let pull = "If the target is well again, pull it forward: holdfastctl retry-now a --queue q --tenant t.";
    assert_told(
        &told,
        Hold::BackOff,
        "It backs off until DATE, in T, after attempt 1 failed with status 503, T ago.",
        pull,
    );
    shard.decide(Override::Paused(true), 0).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::BackOff,
        "It backs off until DATE, in T, after attempt 1 failed with status 503, T ago. The queue is paused, too.",
        "Let the queue go on: holdfastctl queue resume q; if the target is well again, pull it forward, too: holdfastctl retry-now a --queue q --tenant t.",
    );
    score(&shard, &shard.keys.delayed, handle.as_bytes(), shard.now().await - 5_000).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Due,
        "It was due T ago: the next claim or the reclaimer's next pass makes it pending. The queue is paused, too.",
        "Let the queue go on: holdfastctl queue resume q.",
    );
    shard.decide(Override::Paused(false), 1).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Due,
        "It was due T ago: the next claim or the reclaimer's next pass makes it pending.",
        "Nothing, if that is a moment ago; else see that workers and a reclaimer run: holdfastctl worker ls.",
    );
}

#[tokio::test]
async fn what_its_caller_wants_later_says_so() {
    let shard = Shard::start().await;
    let start = shard.now().await + 3_600_000;
    shard.accept(&Item::new("a").from(start)).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::NotBefore,
        "Its caller does not want it started before DATE, in T.",
        "Nothing, or start it early: holdfastctl retry-now a --queue q --tenant t.",
    );
    shard.decide(Override::Paused(true), 0).await;
    assert_eq!(
        why(&shard, "a").await.suggestion,
        "Let the queue go on: holdfastctl queue resume q; to start it early as well: holdfastctl retry-now a --queue q --tenant t."
    );
}

/// Leases a request to a worker of the registry.
async fn held(shard: &Shard, id: &str, name: &str) -> (Session, Handle) {
    let session = worker(shard, name).await;
    let handle = shard.accept(&Item::new(id)).await;
    assert_eq!(shard.claim(fence(session, 1), 1).await.len(), 1);
    (session, handle)
}

const RELEASE: &str = "holdfastctl lease release a --queue q --tenant t.";

#[tokio::test]
async fn what_runs_says_with_whom_since_when_and_for_how_long() {
    let shard = Shard::start().await;
    let (session, handle) = held(&shard, "a", "gpu-7").await;
    let told = why(&shard, "a").await;
    assert_told(
        &told,
        Hold::Running,
        "Worker gpu-7 has worked on attempt 1 for T; its lease runs for another T.",
        &format!(
            "Nothing: it runs. To have its call stopped and made anew, end the lease: {RELEASE}"
        ),
    );
    asking(&shard, "gpu-8").await;
    assert_eq!(
        why(&shard, "a").await.suggestion,
        format!("Nothing: it runs. To give it to another worker, end the lease: {RELEASE}")
    );
    let lease = told.lease.unwrap();
    assert_eq!(
        (lease.worker.as_deref(), lease.fence),
        (Some("gpu-7"), fence(session, 1).to_string())
    );

    not_seen_for(&shard, session, 600_000).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Running,
        "Worker gpu-7 has worked on attempt 1 for T; its lease runs for another T.",
        &format!(
            "That worker was last seen T ago, but its lease was renewed since; if it hangs, end the lease: {RELEASE}"
        ),
    );
    shard.tell(&[&"HDEL", &WORKERS, &session.to_string()]).await;
    let told = why(&shard, "a").await;
    let unnamed = format!(
        "A worker that the registry does not name (session {session}) has worked on attempt 1 for T; its lease runs for another T."
    );
    assert_eq!(shape(&told.sentence), unnamed);

    let lapsed = [fence(session, 1).as_bytes().as_slice(), b"|", handle.as_bytes()].concat();
    score(&shard, &shard.keys.leased, &lapsed, shard.now().await - 5_000).await;
    let told = why(&shard, "a").await;
    assert_eq!(told.hold, Hold::Lapsed);
    assert!(
        told.sentence.ends_with("nobody has ever renewed or reclaimed there."),
        "{}",
        told.sentence
    );
    worker(&shard, "other").await;
    shard.set_meta("beat", shard.now().await - 7_000).await;
    let told = why(&shard, "a").await;
    assert_told(
        &told,
        Hold::Lapsed,
        &format!(
            "The lease of a worker that the registry does not name (session {session}) lapsed T ago, on attempt 1: it waits for a reclaimer to take it back; no reclaimer has been there since, the last to renew or reclaim was T ago."
        ),
        "Nothing, if that is a second or two ago; else see that a reclaimer runs and has this queue.",
    );
    // Another's renewal is as good a sign of life as a reclaimer's pass.
    shard.set_meta("beat", shard.now().await - 3_000).await;
    let told = why(&shard, "a").await.sentence;
    assert!(told.ends_with("ago."), "{told}");
    assert!(told.contains("back; somebody renewed or reclaimed there "), "{told}");
}

#[tokio::test]
async fn what_is_cancelled_while_it_runs_says_who_has_yet_to_stop() {
    let shard = Shard::start().await;
    let (_, handle) = held(&shard, "a", "gpu-7").await;
    shard.cancel(handle).await;
    let told = why(&shard, "a").await;
    assert_eq!(told.state, "cancelling");
    assert_told(
        &told,
        Hold::Cancelling,
        "Its caller cancelled it, and worker gpu-7, which has held it for T, has yet to stop; its lease runs for another T.",
        &format!(
            "Nothing: its worker hears of it with its next renewal at the latest. If it does not stop, end the lease: {RELEASE}"
        ),
    );
}

#[tokio::test]
async fn in_a_queue_of_many_shards_a_request_is_found_in_its_own() {
    let shards = NonZeroU32::new(3).unwrap();
    let shard = Shard::with(|policy| policy.shards = shards).await;
    let queue = super::queue(&shard);
    let identity = super::identity("a");
    let place = identity.place(shards);
    let own = match place.shard {
        0 => &shard,
        number => &shard.beside(number).await,
    };
    let handle = own.accept(&Item::new("a")).await;
    assert_eq!(handle.key(), place.key);
    let told = holdfast_core::operate::why(&shard.redis, &queue, &identity).await.unwrap();
    assert_eq!((told.state.as_str(), told.shard), ("pending", place.shard));
    // A bury of the fixture's kind is a dead letter there as well.
    let owner = own.lease(handle).await;
    assert_eq!(own.settle(owner, handle, bury()).await, SettleReply::Done);
    let told = holdfast_core::operate::why(&shard.redis, &queue, &identity).await.unwrap();
    assert_eq!(told.state, "dead");
}

#[tokio::test]
async fn a_retention_that_somebody_spoiled_keeps_nobody_from_an_answer() {
    let shard = Shard::start().await;
    shard.accept(&Item::new("a")).await;
    let most = u64::MAX.to_string();
    shard.tell(&[&"HSET", &shard.keys.meta, &"retention", &most, &"dead_retention", &most]).await;
    assert_eq!(why(&shard, "a").await.state, "pending");
}
