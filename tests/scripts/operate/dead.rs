//! Dead letters: listed by a filter, counted, run again at a rate, and never more than were counted.

use std::{collections::BTreeSet, time::Duration};

use holdfast_core::{
    model::{Failure, FailureCode, Home, Outcome, Session},
    operate::{
        ActError, DeadFilter, RedriveAsk, Redriven, Seconds, Target, count, dead_letter, dead_rows,
        redrive,
    },
    script::{Burial, SettleItem, SettleKind, SettleReply},
};
use holdfast_testkit::eventually;

use super::{identity, queue};
use crate::fixture::{Item, LIMIT, Shard, assert_same, fence, handles};

/// So long that no test meets its end.
const LONG: Duration = Duration::from_secs(60);

/// Buries requests, all at once.
async fn bury(shard: &Shard, items: &[Item], outcome: Burial, code: FailureCode) {
    shard.accept_all(items).await;
    let owner = fence(Session::random(), 1);
    let leased = handles(&shard.claim(owner, 256).await);
    assert_eq!(leased.len(), items.len());
    let failure = Failure { code, status: 0 };
    let kind = SettleKind::Bury { outcome, failure, answer: None };
    let item = |handle| SettleItem { fence: owner, handle, kind: kind.clone() };
    let settled: Vec<SettleItem> = leased.into_iter().map(item).collect();
    let replies = shard.settle_all(&settled).await.unwrap();
    assert!(replies.iter().all(|reply| *reply == SettleReply::Done));
}

/// Dead letters of two kinds: 10 that gave up for a reset, 5 whose answer was too large.
async fn two_kinds() -> Shard {
    let shard = Shard::start().await;
    bury(&shard, &Item::many("r", 10), Burial::GaveUp, FailureCode::Reset).await;
    bury(&shard, &Item::many("l", 5), Burial::AnswerTooLarge, FailureCode::TooLarge).await;
    shard
}

fn filter(json: &str) -> DeadFilter {
    serde_json::from_str(json).unwrap()
}

/// Asks for all that a filter means, as it was counted.
fn confirmed(filter: &DeadFilter, counted: &Redriven) -> RedriveAsk {
    let (count, as_of) = (Some(counted.matched), Some(counted.as_of));
    let all = filter.is_empty();
    RedriveAsk {
        filter: filter.clone(),
        all,
        count,
        as_of,
        rate: Some(1000),
        ..RedriveAsk::default()
    }
}

async fn counted(shard: &Shard, filter: &DeadFilter) -> Redriven {
    let all = filter.is_empty();
    let ask = RedriveAsk { filter: filter.clone(), all, dry_run: true, ..RedriveAsk::default() };
    count(&shard.redis, &queue(shard), &ask).await.unwrap()
}

async fn run(shard: &Shard, ask: &RedriveAsk) -> Redriven {
    redrive(&shard.redis, &queue(shard), ask, LONG).await.unwrap()
}

#[tokio::test]
async fn they_are_listed_by_a_filter_page_by_page_each_once() {
    let shard = two_kinds().await;
    let queue = queue(&shard);
    let (mut cursor, mut ids, mut pages) = (None, BTreeSet::new(), 0);
    loop {
        let some = filter(r#"{"outcome":"gave-up","failure":"reset","tenant":"t"}"#);
        let page = dead_rows(&shard.redis, &queue, &some, cursor.as_deref(), 3).await.unwrap();
        pages += 1;
        for row in &page.rows {
            assert_eq!(row.outcome.as_deref(), Some("gave-up"));
            assert!(ids.insert(row.id.clone().unwrap()), "{:?} twice", row.id);
        }
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(ids.len(), 10);
    assert!(pages >= 4, "{pages} pages of 3");
    for (json, rows) in [
        (r#"{"tenant":"u"}"#, 0),
        (r#"{"younger_seconds":60}"#, 15),
        (r#"{"older_seconds":60}"#, 0),
    ] {
        let page = dead_rows(&shard.redis, &queue, &filter(json), None, 100).await.unwrap();
        assert_eq!(page.rows.len(), rows, "{json}");
    }
}

#[tokio::test]
async fn one_is_shown_with_all_but_its_body() {
    let shard = two_kinds().await;
    let queue = queue(&shard);
    let (r3, nobody) = (identity("r3"), identity("x"));
    let target = Target { queue: &queue, identity: &r3 };
    let letter = dead_letter(&shard.redis, target).await.unwrap();
    assert_eq!((letter.row.id.as_deref(), letter.has_body), (Some("r3"), true));
    assert_eq!(letter.row.last_failure.map(|it| it.code).as_deref(), Some("reset"));
    let target = Target { queue: &queue, identity: &nobody };
    assert!(matches!(dead_letter(&shard.redis, target).await, Err(ActError::Unknown)));
}

#[tokio::test]
async fn they_are_counted_first_and_then_these_run_again() {
    let shard = two_kinds().await;
    let some = filter(r#"{"outcome":"gave-up"}"#);
    let before = shard.dump().await;
    let told = counted(&shard, &some).await;
    assert_eq!((told.outcome.as_str(), told.matched, told.redriven), ("counted", 10, 0));
    assert_eq!(told.by_outcome, [("gave-up".to_owned(), 10)].into());
    assert_same("a count", &before, &shard.dump().await);

    let done = run(&shard, &confirmed(&some, &told)).await;
    assert_eq!((done.outcome.as_str(), done.redriven, done.cursor), ("done", 10, None));
    let depth = shard.depth().await;
    assert_eq!((depth.pending, depth.dead), (10, 5));
    let ticket = shard.find(Item::new("r3").key()).await.unwrap().ticket;
    assert_eq!(
        (ticket.attempts, ticket.previous.and_then(|it| it.outcome)),
        (0, Some(Outcome::GaveUp))
    );
    shard.assert_whole().await;
}

#[tokio::test]
async fn never_more_run_again_than_were_counted_and_none_that_died_later() {
    let shard = two_kinds().await;
    let all = filter("{}");
    let told = counted(&shard, &all).await;
    shard.until(told.as_of.0).await;
    bury(&shard, &Item::many("later", 20), Burial::GaveUp, FailureCode::Reset).await;
    let fewer = RedriveAsk { count: Some(4), ..confirmed(&all, &told) };
    let done = run(&shard, &fewer).await;
    assert_eq!((done.outcome.as_str(), done.redriven), ("done", 4));
    let done = run(&shard, &confirmed(&all, &told)).await;
    assert_eq!(done.redriven, 11, "the rest of the 15, and none of the 20");
    for item in Item::many("later", 20) {
        assert_eq!(shard.home(item.key()).await, Some(Home::Dead));
    }
    let none = RedriveAsk { count: Some(0), ..confirmed(&all, &told) };
    assert_eq!(run(&shard, &none).await.redriven, 0);
}

#[tokio::test]
async fn what_stops_goes_on_where_it_was() {
    let shard = two_kinds().await;
    let all = filter("{}");
    let told = counted(&shard, &all).await;
    let mut ask = RedriveAsk { rate: Some(8), ..confirmed(&all, &told) };
    let (mut redriven, mut calls) = (0, 0);
    loop {
        // No time at all: each call does as little as it may.
        let some = redrive(&shard.redis, &queue(&shard), &ask, Duration::ZERO).await.unwrap();
        (redriven, calls) = (redriven + some.redriven, calls + 1);
        ask.cursor = some.cursor;
        if some.outcome != "more" {
            assert_eq!(some.outcome, "done");
            break;
        }
        assert!(some.redriven <= 2, "a quarter of a second's worth");
    }
    assert_eq!(redriven, 15);
    assert!(calls > 5, "{calls} calls");
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_rate_is_kept() {
    let shard = two_kinds().await;
    let some = filter(r#"{"outcome":"answer-too-large"}"#);
    let told = counted(&shard, &some).await;
    let started = tokio::time::Instant::now();
    let done = run(&shard, &RedriveAsk { rate: Some(10), ..confirmed(&some, &told) }).await;
    assert_eq!(done.redriven, 5);
    assert!(started.elapsed() >= Duration::from_millis(400), "{:?}", started.elapsed());
}

#[tokio::test]
async fn ids_run_again_whatever_else_is_dead() {
    let shard = two_kinds().await;
    shard.accept(&Item::new("alive")).await;
    let ids = ["r1", "alive", "l2", "nobody"].map(str::to_owned).to_vec();
    let ask = RedriveAsk { filter: filter(r#"{"tenant":"t"}"#), ids, ..RedriveAsk::default() };
    let told = count(&shard.redis, &queue(&shard), &ask).await.unwrap();
    assert_eq!((told.matched, told.not_dead), (2, 2));
    let (count, as_of) = (Some(told.matched), Some(told.as_of));
    let done = run(&shard, &RedriveAsk { count, as_of, ..ask }).await;
    assert_eq!((done.redriven, done.not_dead), (2, 2));
    assert_eq!(shard.depth().await.dead, 13);
}

#[tokio::test]
async fn a_full_queue_or_store_stops_it_with_the_reason_and_the_place() {
    let shard = Shard::with(|policy| policy.capacity = 10).await;
    bury(&shard, &Item::many("r", 10), Burial::GaveUp, FailureCode::Reset).await;
    shard.accept_all(&Item::many("alive", 6)).await;
    let all = filter("{}");
    let told = counted(&shard, &all).await;
    let done = run(&shard, &confirmed(&all, &told)).await;
    assert_eq!((done.outcome.as_str(), done.reason.as_deref()), ("stopped", Some("queue-full")));
    assert_eq!(done.redriven, 4);
    let rest = counted(&shard, &all).await;
    assert_eq!(rest.matched, 6, "what did not fit is as it was");

    shard.claim(fence(Session::random(), 1), 10).await;
    shard.fill_memory().await;
    let done = run(&shard, &confirmed(&all, &rest)).await;
    assert_eq!((done.outcome.as_str(), done.reason.as_deref()), ("stopped", Some("store-full")));
    shard.assert_whole().await;
}

#[tokio::test]
async fn what_lost_its_body_is_counted_and_left() {
    let shard = two_kinds().await;
    let key = Item::new("r0").key();
    shard.tell(&[&"HDEL", &shard.keys.request, &key.as_bytes()]).await;
    let all = filter("{}");
    let told = counted(&shard, &all).await;
    let done = run(&shard, &confirmed(&all, &told)).await;
    assert_eq!((done.redriven, done.bodyless), (14, 1));
    assert_eq!(shard.home(key).await, Some(Home::Dead));
}

#[tokio::test]
async fn what_is_not_confirmed_or_not_said_is_refused() {
    let shard = two_kinds().await;
    let (queue, before) = (queue(&shard), shard.dump().await);
    let unconfirmed = RedriveAsk { all: true, ..RedriveAsk::default() };
    for (ask, field) in [
        (unconfirmed.clone(), "count"),
        (RedriveAsk { count: Some(15), ..unconfirmed.clone() }, "count"),
        (
            RedriveAsk {
                all: false,
                count: Some(15),
                as_of: Some(Seconds(1)),
                ..unconfirmed.clone()
            },
            "filter",
        ),
        (RedriveAsk { rate: Some(0), ..unconfirmed.clone() }, "rate"),
        (
            RedriveAsk {
                cursor: Some("7.0.".to_owned()),
                count: Some(1),
                as_of: Some(Seconds(1)),
                ..unconfirmed.clone()
            },
            "cursor",
        ),
        (RedriveAsk { ids: vec!["a".to_owned()], ..unconfirmed }, "tenant"),
    ] {
        match redrive(&shard.redis, &queue, &ask, LONG).await {
            Err(ActError::Filter(fault)) => assert_eq!(fault.field, field),
            other => panic!("{ask:?}: {other:?}"),
        }
    }
    assert_same("refused", &before, &shard.dump().await);
}

#[tokio::test]
async fn a_redis_that_goes_away_stops_it_and_it_can_go_on() {
    let shard = two_kinds().await;
    let all = filter("{}");
    let told = counted(&shard, &all).await;
    let ask = RedriveAsk { rate: Some(4), ..confirmed(&all, &told) };
    let (redis, name) = (shard.redis.clone(), queue(&shard));
    let going = redrive(&redis, &name, &ask, LONG);
    let cut = async {
        eventually("some run again", LIMIT, async || match shard.depth().await.dead {
            0..=13 => Ok(()),
            dead => Err(format!("{dead} are dead")),
        })
        .await;
        shard.tell(&[&"CONFIG", &"SET", &"maxmemory", &"1"]).await;
    };
    let (done, ()) = tokio::join!(going, cut);
    let done = done.unwrap();
    assert_eq!(done.outcome, "stopped");
    shard.tell(&[&"CONFIG", &"SET", &"maxmemory", &"0"]).await;
    let count = Some(told.matched - done.redriven);
    let rest = RedriveAsk { count, cursor: done.cursor.clone(), rate: Some(1000), ..ask };
    let rest = run(&shard, &rest).await;
    assert_eq!(done.redriven + rest.redriven, 15);
    shard.assert_whole().await;
}
