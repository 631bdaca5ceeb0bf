//! Cancel and deadline, in each home.

use std::time::{Duration, Instant};

use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{RedisServer, eventually};

use crate::fleet::{Fleet, SOON, Setup};

async fn cancel(fleet: &Fleet, id: &str) -> u16 {
    fleet.call("DELETE", &format!("/v1/queues/q/requests/{id}"), b"").await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_cancelled_at_once_and_stays_so() {
    let fleet = Fleet::with(Setup::patient(), RedisServer::start().await).await;
    fleet.submit("pending", "{}").await;
    let later = format!(
        "{{\"id\":\"delayed\",\"timeout\":\"10m\",\"not_before\":{},\"payload\":{{}}}}",
        unix() + 300
    );
    assert_eq!(fleet.post(&later).await.status, 202);
    assert_eq!(fleet.status("delayed").await["state"], "delayed");
    for id in ["pending", "delayed"] {
        assert_eq!(cancel(&fleet, id).await, 200, "{id}");
        assert_eq!(cancel(&fleet, id).await, 200, "{id}, again");
        let (outcome, record) = fleet.result(id).await;
        assert_eq!(outcome, "cancelled");
        assert_eq!(record.header("content-type"), Some("application/problem+json"));
    }
    assert_eq!(cancel(&fleet, "never-known").await, 404);
    let _worker = fleet.worker();
    fleet.submit("after", "{}").await;
    fleet.result("after").await;
    assert_eq!(fleet.gateway.counts().arrived, 1, "a cancelled request was dispatched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_running_call_and_closes_it() {
    let fleet = Fleet::with(Setup::patient(), RedisServer::start().await).await;
    let worker = fleet.worker();
    fleet.gateway.hold(true);
    fleet.submit("k36", "{\"content\":\"<k36>\"}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    let asked = Instant::now();
    assert!(matches!(cancel(&fleet, "k36").await, 200 | 202));
    assert_eq!(fleet.result("k36").await.0, "cancelled");
    // The gateway would never have answered.
    assert!(asked.elapsed() < Duration::from_secs(10), "it took {:?}", asked.elapsed());
    fleet.gateway.wait_until(SOON, |counts| counts.gone == 1).await.expect("closed");
    fleet.gateway.hold(false);
    eventually("its slot is free", SOON, async || {
        match fleet.metric(&worker, "holdfast_in_flight", "").await {
            0.0 => Ok(()),
            busy => Err(format!("{busy} in flight")),
        }
    })
    .await;
    assert_eq!(fleet.result_now("k36").await.header("holdfast-outcome"), Some("cancelled"));
    assert_eq!(cancel(&fleet, "k36").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_completion_may_meet_and_one_of_them_wins() {
    let fleet = Fleet::with(Setup::patient(), RedisServer::start().await).await;
    let _worker = fleet.worker();
    fleet.gateway.script(vec![Rule { delay_ms: Some(20), ..Rule::default() }]).expect("a rule");
    let (mut answered, mut cancelled) = (0, 0);
    // How long an answer takes on this machine now.
    let mut took = Duration::ZERO;
    for number in 0..5 {
        let (id, asked) = (format!("warm-{number}"), Instant::now());
        fleet.submit(&id, "{\"content\":\"x\"}").await;
        fleet.result(&id).await;
        took = took.max(asked.elapsed());
    }
    for number in 0..150_u32 {
        let id = format!("k34-{number}");
        fleet.submit(&id, "{\"content\":\"x\"}").await;
        let moment = Instant::now();
        // From well before the answer to after it.
        let wait = took * number / 100;
        while moment.elapsed() < wait {
            tokio::task::yield_now().await;
        }
        assert!(matches!(cancel(&fleet, &id).await, 200 | 202));
        match fleet.result(&id).await.0.as_str() {
            "answered" => answered += 1,
            "cancelled" => cancelled += 1,
            other => panic!("{id} ended as {other}"),
        }
        assert_eq!(cancel(&fleet, &id).await, 200, "an ended one is told as it ended");
    }
    assert!(
        answered > 0 && cancelled > 0,
        "{answered} answered, {cancelled} cancelled: they never met"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_in_the_queue_ends_the_request_undispatched() {
    let fleet = Fleet::with(Setup::patient(), RedisServer::start().await).await;
    let _reclaimer = fleet.reclaimer();
    fleet.post("{\"id\":\"k23a\",\"timeout\":\"2s\",\"payload\":{}}").await;
    assert_eq!(fleet.result("k23a").await.0, "deadline-exceeded");
    let _worker = fleet.worker();
    fleet.submit("after", "{}").await;
    fleet.result("after").await;
    assert_eq!(fleet.gateway.counts().arrived, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_in_a_call_aborts_it() {
    let fleet = Fleet::with(Setup::patient(), RedisServer::start().await).await;
    let _worker = fleet.worker();
    fleet.gateway.hold(true);
    let submitted = Instant::now();
    fleet.post("{\"id\":\"k23b\",\"timeout\":\"3s\",\"payload\":{}}").await;
    assert_eq!(fleet.result("k23b").await.0, "deadline-exceeded");
    assert!(submitted.elapsed() < Duration::from_secs(12), "it took {:?}", submitted.elapsed());
    fleet.gateway.wait_until(SOON, |counts| counts.gone == 1).await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_comes_before_the_next_try_ends_the_request() {
    let fleet = Fleet::with(Setup::patient(), RedisServer::start().await).await;
    let _worker = fleet.worker();
    fleet.gateway.script(vec![Rule { status: Some(503), ..Rule::default() }]).expect("a rule");
    fleet.post("{\"id\":\"late\",\"timeout\":\"4s\",\"payload\":{}}").await;
    let (outcome, record) = fleet.result("late").await;
    // The last answer is kept where no other attempt can start in time.
    assert!(matches!(outcome.as_str(), "answered" | "deadline-exceeded"), "{outcome}");
    if outcome == "answered" {
        assert_eq!(record.header("holdfast-status"), Some("503"));
    }
    assert_eq!(fleet.count("delayed").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_while_redis_is_down_ends_the_request_once() {
    let fleet = Fleet::with(Setup::default(), RedisServer::start().await).await;
    fleet.post("{\"id\":\"k23c\",\"timeout\":\"3s\",\"payload\":{}}").await;
    fleet.redis.pause();
    let asleep = Instant::now();
    eventually("the deadline passes", SOON, async || {
        if asleep.elapsed() > Duration::from_secs(5) { Ok(()) } else { Err("not yet") }
    })
    .await;
    fleet.redis.resume();
    let _roles = [fleet.reclaimer(), fleet.reclaimer(), fleet.worker(), fleet.worker()];
    assert_eq!(fleet.result("k23c").await.0, "deadline-exceeded");
    assert_eq!(fleet.gateway.counts().arrived, 0);
    assert_eq!((fleet.count("finished").await, fleet.count("pending").await), (1, 0));
}

fn unix() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a deadline is no lease")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock after 1970").as_secs()
}
