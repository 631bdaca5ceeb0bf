//! What is kept, for how long, and what a sweep may take. 10: sessions and workers are forgotten too.

use holdfast_core::{
    model::{Generation, Handle, Outcome, Session},
    script::{
        RedriveReply, Register, RegisterReply, SettleReply, SubmitReply, SweepReply,
        WorkerRegistry, registered_workers,
    },
};

use crate::fixture::{Item, Shard, ack, assert_same, bury, fence};

const DAY: u64 = 24 * 3_600_000;

#[tokio::test]
async fn after_its_retention_every_field_of_a_request_is_gone_and_its_id_is_free() {
    let shard = Shard::start().await;
    let empty = shard.dump().await;
    let item = Item::new("a");
    let (owner, a) = shard.running(&item).await;
    assert_eq!(shard.settle(owner, a, ack("done")).await, SettleReply::Done);
    assert_eq!(shard.sweep().await, [], "it is kept");
    shard.score(&shard.keys.finished, &[a], shard.now().await - 1).await;
    assert_eq!(shard.sweep().await, [SweepReply::Swept(a)]);

    let rest = |dump: crate::fixture::Dump| {
        let dump = dump.without(&shard.keys.meta).without(&shard.keys.bell);
        dump.without(&shard.keys.sessions)
    };
    assert_same("a life", &rest(empty), &rest(shard.dump().await));
    let other = item.again().body("other bytes");
    assert!(matches!(shard.submit_one(&other).await, SubmitReply::Accepted(_)));
    shard.assert_whole().await;
}

#[tokio::test]
async fn what_was_left_of_a_request_beside_its_record_is_given_back_with_it() {
    let shard = Shard::start().await;
    let empty = shard.meta("bytes").await.unwrap_or(0);
    let (owner, a) = shard.running(&Item::new("a")).await;
    let key = a.key();
    let request = shard.tell(&[&"HGET", &shard.keys.request, key.as_bytes()]).await;
    let request = request.bytes().expect("it is there").to_vec();
    assert_eq!(shard.settle(owner, a, ack("done")).await, SettleReply::Done);
    let bytes = shard.meta("bytes").await.expect("counted");
    // As a server that forgot in part might have left it.
    shard.tell(&[&"HSET", &shard.keys.request, key.as_bytes(), &request]).await;
    shard.set_meta("bytes", bytes + request.len() as u64).await;
    shard.score(&shard.keys.finished, &[a], shard.now().await - 1).await;
    assert_eq!(shard.sweep().await, [SweepReply::Swept(a)]);
    assert_eq!(shard.meta("bytes").await, Some(empty));
    assert_eq!(shard.tell(&[&"HLEN", &shard.keys.request]).await.int(), Some(0));

    // Alone, and of no length.
    let (owner, b) = shard.running(&Item::new("b")).await;
    assert_eq!(shard.settle(owner, b, ack("done")).await, SettleReply::Done);
    shard.tell(&[&"HSET", &shard.keys.request, b.key().as_bytes(), &""]).await;
    shard.score(&shard.keys.finished, &[b], shard.now().await - 1).await;
    assert_eq!(shard.sweep().await, [SweepReply::Swept(b)]);
    assert_eq!(shard.tell(&[&"HLEN", &shard.keys.request]).await.int(), Some(0));
}

#[tokio::test]
async fn the_dead_are_kept_as_long_as_their_own_retention_says() {
    let shard = Shard::start().await;
    let (from, dead) = (shard.now().await, shard.dead(&Item::new("dead")).await);
    let kept = shard.policy.dead_retention.as_millis() as u64;
    let till = shard.find(dead.key()).await.unwrap().score;
    assert!((from + kept..=shard.now().await + kept).contains(&till));
    shard.score(&shard.keys.dead, &[dead], from - 1).await;
    assert_eq!(shard.sweep().await, [SweepReply::Swept(dead)]);
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_sweep_takes_nothing_of_a_generation_that_the_set_does_not_name() {
    let shard = Shard::start().await;
    let dead = shard.dead(&Item::new("a")).await;
    let RedriveReply::Redriven(_) = shard.redrive(dead, Generation::random()).await else {
        panic!("not redriven");
    };
    let before = shard.dump().await;
    // As an older version, or a server that forgot in part, might have left it.
    for set in [&shard.keys.finished, &shard.keys.dead] {
        shard.tell(&[&"ZADD", set, &"1", dead.as_bytes()]).await;
    }
    assert_eq!(shard.redrive(dead, Generation::random()).await, RedriveReply::Gone);
    assert_eq!(shard.sweep().await, [SweepReply::Dropped(dead); 2]);
    assert_same("a sweep", &before, &shard.dump().await);
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_session_is_forgotten_a_day_after_its_last_claim_and_not_before() {
    let (shard, old, young) = (Shard::start().await, Session::random(), Session::random());
    for session in [old, young] {
        shard.claim(fence(session, 1), 1).await;
    }
    let age = async |session: Session, by: u64| {
        let when = (shard.now().await - by).to_be_bytes();
        let row = [&b"0000000000000001"[..], &when].concat();
        shard.tell(&[&"HSET", &shard.keys.sessions, &session.to_string(), &row]).await;
    };
    age(old, DAY + 60_000).await;
    age(young, DAY - 60_000).await;
    shard.sweep().await;
    let dump = shard.dump().await;
    let kept: Vec<&Vec<u8>> = dump.of(&shard.keys.sessions).keys().collect();
    assert_eq!(kept, [&young.to_string().into_bytes()]);
}

#[tokio::test]
async fn a_worker_is_shown_while_it_is_heard_of_and_forgotten_a_day_later() {
    let (shard, old, young) = (Shard::start().await, Session::random(), Session::random());
    let seen = (shard.now().await - DAY - 60_000).to_be_bytes();
    let row = [&seen[..], b"old"].concat();
    let workers = holdfast_core::keys::WORKERS;
    shard.tell(&[&"HSET", &workers, &old.to_string(), &row]).await;
    Register::Worker(young, "young").run(&shard.redis).await.unwrap();
    let rows = registered_workers(&shard.redis).await.unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (row.session, row.text.as_str())).collect();
    assert_eq!(shown, [(young, "young")]);
}

#[tokio::test]
async fn a_worker_that_ended_is_gone_at_once_and_does_not_come_back_by_what_it_sent_before() {
    let (shard, ended, other) = (Shard::start().await, Session::random(), Session::random());
    let row = async |row: Register<'_>| row.run(&shard.redis).await.unwrap();
    row(Register::Worker(ended, "ended")).await;
    row(Register::Worker(other, "other")).await;
    let before = shard.now().await;
    assert!(matches!(row(Register::Ended(ended)).await, RegisterReply::Ended(at) if at >= before));
    // A copy that was on its way, and a second end.
    for late in [Register::Worker(ended, "ended"), Register::Ended(ended)] {
        assert!(matches!(row(late).await, RegisterReply::Ended(_)));
        let registry = WorkerRegistry::read(&shard.redis).await.unwrap();
        let shown: Vec<_> = registry.workers.iter().map(|row| row.text.as_str()).collect();
        assert_eq!(shown, ["other"]);
        assert!(registry.last_ended.is_some_and(|at| at >= before));
    }
}

#[tokio::test]
async fn a_redrive_that_cannot_be_is_refused_and_nothing_is_written() {
    let shard = Shard::with(|policy| policy.capacity = 1).await;
    let dead = shard.dead(&Item::new("dead")).await;
    let is_refused = async |handle: Handle, reply: RedriveReply| {
        let before = shard.dump().await;
        assert_eq!(shard.redrive(handle, Generation::random()).await, reply);
        assert_same("a refused redrive", &before, &shard.dump().await);
    };
    let waiting = shard.accept(&Item::new("waiting")).await;
    is_refused(dead, RedriveReply::Full).await;
    is_refused(waiting, RedriveReply::Gone).await;
    let owner = shard.lease(waiting).await;
    assert_eq!(shard.settle(owner, waiting, ack("done")).await, SettleReply::Done);
    is_refused(waiting, RedriveReply::Gone).await;
    let late = holdfast_core::script::Redrive {
        shard: &shard.keys,
        items: &[(dead, Generation::random())],
        deadline: Some(shard.now().await),
    };
    assert_eq!(late.run(&shard.redis).await.unwrap(), [RedriveReply::Late]);
    shard.tell(&[&"HDEL", &shard.keys.request, dead.key().as_bytes()]).await;
    is_refused(dead, RedriveReply::Bodyless).await;
    assert_eq!(shard.outcome(dead.key()).await, Outcome::GaveUp);
}

#[tokio::test]
async fn a_redriven_request_may_die_again_and_be_redriven_again() {
    let shard = Shard::start().await;
    let mut dead = shard.dead(&Item::new("a")).await;
    for _ in 0..3 {
        let previous = dead.generation();
        let RedriveReply::Redriven(ticket) = shard.redrive(dead, Generation::random()).await else {
            panic!("not redriven");
        };
        assert_eq!(ticket.previous.unwrap().generation, previous);
        dead = ticket.handle(dead.key());
        let owner = shard.lease(dead).await;
        assert_eq!(shard.settle(owner, dead, bury()).await, SettleReply::Done);
        shard.assert_whole().await;
    }
}
