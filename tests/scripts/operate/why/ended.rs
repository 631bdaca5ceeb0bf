//! What ended, and what is to be done about it.

use holdfast_core::{
    model::{Failure, FailureCode, Handle},
    operate::Hold,
    script::{Burial, Override, SettleKind, SettleReply},
};

use super::super::why;
use super::{DOCTOR, assert_told};
use crate::fixture::{Item, Shard, ack, retry};

#[tokio::test]
async fn what_is_finished_says_how_and_until_when_it_is_kept() {
    let shard = Shard::start().await;
    let (owner, answered) = shard.running(&Item::new("a")).await;
    shard.settle(owner, answered, ack("done")).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Ended,
        "It ended as answered with status 200, T ago, after 1 attempt; it is kept until DATE.",
        "Read it: holdfastctl result a --queue q.",
    );
    let cancelled = shard.accept(&Item::new("c")).await;
    shard.cancel(cancelled).await;
    assert_told(
        &why(&shard, "c").await,
        Hold::Ended,
        "It ended as cancelled, T ago, after 0 attempts; it is kept until DATE.",
        "Nothing: its caller wanted that. To run it all the same, submit it under another id.",
    );
    let (owner, late) = shard.running(&Item::new("d").by(shard.now().await + 60_000)).await;
    shard.settle(owner, late, retry(120_000)).await;
    assert_told(
        &why(&shard, "d").await,
        Hold::Ended,
        "It ended as deadline-exceeded after status 503, T ago, after 1 attempt; it is kept until DATE.",
        "Submit it under another id with more time; if many end so, add workers or concurrency.",
    );
    shard.tell(&[&"HDEL", &shard.keys.result, &answered.key().as_bytes()]).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::RecordMissing,
        "It ended, but its record is missing or cannot be read; what is left is kept until DATE.",
        DOCTOR,
    );
}

#[tokio::test]
async fn what_never_ran_and_ended_late_in_a_paused_queue_says_that_it_is_paused() {
    let shard = Shard::start().await;
    let deadline = shard.now().await + 50;
    shard.accept(&Item::new("a").by(deadline)).await;
    shard.decide(Override::Paused(true), 0).await;
    shard.until(deadline).await;
    assert_eq!(shard.expire().await.len(), 1);
    assert_told(
        &why(&shard, "a").await,
        Hold::Ended,
        "It ended as deadline-exceeded, T ago, after 0 attempts; it is kept until DATE. Queue q is paused by an operator.",
        "Let the queue go on: holdfastctl queue resume q; then submit it under another id.",
    );
    shard.decide(Override::Paused(false), 1).await;
    let told = why(&shard, "a").await;
    assert!(told.suggestion.starts_with("Submit it under another id with more time"), "{told:?}");
}

/// Submits a request and buries it with an outcome.
async fn buried(shard: &Shard, id: &str, outcome: Burial) -> Handle {
    let (owner, handle) = shard.running(&Item::new(id)).await;
    let failure = Failure { code: FailureCode::Reset, status: 0 };
    let kind = SettleKind::Bury { outcome, failure, answer: None };
    assert_eq!(shard.settle(owner, handle, kind).await, SettleReply::Done);
    handle
}

#[tokio::test]
async fn a_dead_letter_says_what_ended_it_and_what_to_do_before_it_runs_again() {
    let shard = Shard::start().await;
    for (id, outcome, suggestion) in [
        ("gave-up", Burial::GaveUp, "Mend the target, then run it again: "),
        ("unusable", Burial::Unusable, "See what was unusable about it; to try again: "),
        (
            "answer-too-large",
            Burial::AnswerTooLarge,
            "Raise the queue's answer_limit, then run it again: ",
        ),
    ] {
        buried(&shard, id, outcome).await;
        let redrive = format!("holdfastctl dead redrive {id} --queue q --tenant t --yes.");
        assert_told(
            &why(&shard, id).await,
            Hold::Ended,
            &format!(
                "It is a dead letter: {id} after reset, T ago, after 1 attempt; it is kept until DATE."
            ),
            &format!("{suggestion}{redrive}"),
        );
    }
    let killer = shard.accept(&Item::new("k")).await;
    for _ in 0..5 {
        shard.lease(killer).await;
        shard.die(&[killer]).await;
    }
    assert_told(
        &why(&shard, "k").await,
        Hold::Ended,
        "It is a dead letter: killed-workers after lease-lost, T ago, after 5 attempts; it is kept until DATE.",
        "Look what it does to workers before it runs again (5 leases of it ran out); then: holdfastctl dead redrive k --queue q --tenant t --yes.",
    );
    let handle = buried(&shard, "b", Burial::GaveUp).await;
    shard.tell(&[&"HDEL", &shard.keys.request, &handle.key().as_bytes()]).await;
    assert_eq!(
        why(&shard, "b").await.suggestion,
        "It cannot run again, its body is missing: submit it anew under another id."
    );
}
