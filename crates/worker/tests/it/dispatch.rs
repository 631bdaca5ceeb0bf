//! What is submitted is called, and what comes of it is recorded.

use std::time::{Duration, Instant};

use holdfast_core::model::{Envelope, FailureCode, Home, Outcome};
use holdfast_testkit::StandIn;
use holdfast_testkit::stand_in::{self, How, Rule};

use crate::support::{LATER, SOON, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_sent_byte_for_byte_and_its_answer_is_recorded() {
    let stage = Stage::set().await;
    let worker = stage.worker("", "path = \"/v1/chat/completions\"").await;
    let body: &[u8] = br#"{"seed": 9007199254740993, "t": 1.0, "x": -0.0, "s": "\ud83d", "a": []}"#;
    let envelope = Envelope {
        request_id: Some("r-77".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ..Envelope::default()
    };
    let spot = stage.submit_with("a", body, LATER, envelope).await;

    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.status, record.attempts), (Outcome::Answered, 200, 1));
    let arrivals = stage.gateway.arrivals();
    assert_eq!(arrivals.len(), 1);
    assert_eq!(&arrivals[0].body[..], body);
    assert_eq!(arrivals[0].path, "/v1/chat/completions");
    assert_eq!(arrivals[0].headers["x-request-id"], "r-77");
    assert!(arrivals[0].headers.contains_key("traceparent"));
    assert_eq!(record.answer.body, arrivals[0].end.as_ref().unwrap().answer);
    assert_eq!(record.answer.header("content-type").unwrap().as_ref(), b"application/json");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_goes_where_its_queue_allows_and_brings_what_it_allows() {
    let stage = Stage::set().await;
    let lists = "allow_paths = [\"/v1/embeddings\"]\nallow_headers = [\"x-priority\"]";
    let worker = stage.worker("", lists).await;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let envelope = |path: &str, name: &str| Envelope {
        path: Some(path.to_owned()),
        headers: vec![pair(name, "low")],
        ..Envelope::default()
    };
    let submit = async |id: &str, path: &str, name: &str| {
        stage.submit_with(id, "{}", LATER, envelope(path, name)).await
    };
    let allowed = submit("a", "/v1/embeddings", "x-priority").await;
    stage.record(&allowed).await;
    let arrivals = stage.gateway.arrivals();
    assert_eq!(arrivals[0].path, "/v1/embeddings");
    assert_eq!(arrivals[0].headers["x-priority"], "low");

    // Whoever wrote these did not ask the lists.
    for (id, path, name) in [
        ("b", "/v1/files", "x-priority"),
        ("c", "/v1/embeddings/../files", "x-priority"),
        ("d", "//evil.example/v1/embeddings", "x-priority"),
        ("e", "/v1/embeddings", "x-other"),
        ("f", "/v1/embeddings", "authorization"),
        ("g", "/v1/embeddings", "host"),
    ] {
        let spot = submit(id, path, name).await;
        assert_eq!(stage.record(&spot).await.outcome, Outcome::Unusable, "{id}");
    }
    assert_eq!(stage.gateway.arrivals().len(), 1, "none of them was called");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_gateway_is_tried_again_and_a_refusal_is_final() {
    let stage = Stage::set().await;
    stage
        .gateway
        .script(vec![
            Rule::on_body("busy").status(503).header("retry-after", "1").times(1),
            Rule::on_body("refused").status(422).body("no"),
        ])
        .unwrap();
    let worker = stage.worker("", "").await;
    let (busy, refused) = (
        stage.submit("busy", r#"{"n": "busy"}"#).await,
        stage.submit("refused", r#"{"n": "refused"}"#).await,
    );

    let started = Instant::now();
    let record = stage.record(&refused).await;
    assert_eq!((record.outcome, record.status, record.attempts), (Outcome::Answered, 422, 1));
    assert_eq!(&record.answer.body[..], b"no");
    let delayed = stage.at_home(&busy, Home::Delayed).await.ticket;
    let (failure, _) = delayed.failure.unwrap();
    assert_eq!((failure.code, failure.status), (FailureCode::Status, 503));
    let record = stage.record(&busy).await;
    assert!(started.elapsed() >= Duration::from_millis(900), "not before it was asked to");
    assert_eq!((record.outcome, record.status, record.attempts), (Outcome::Answered, 200, 2));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_attempt_publishes_its_answer_or_gives_up() {
    let stage = Stage::set().await;
    stage
        .gateway
        .script(vec![
            Rule::on_body("busy").status(500).body("sorry"),
            Rule::on_body("cut").raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234"),
        ])
        .unwrap();
    let worker = stage.worker("", "max_attempts = 2").await;
    let (busy, cut) =
        (stage.submit("busy", "\"busy\"").await, stage.submit("cut", "\"cut\"").await);

    let record = stage.record(&busy).await;
    assert_eq!((record.outcome, record.status, record.attempts), (Outcome::Answered, 500, 2));
    assert_eq!(&record.answer.body[..], b"sorry");
    let record = stage.record(&cut).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::GaveUp, 2));
    assert_eq!(record.failure.unwrap().code, FailureCode::CutBody);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_whose_body_is_broken_is_heeded_by_its_head_and_not_published() {
    let stage = Stage::set().await;
    let refused = |status: &str, rest: &str| {
        format!("HTTP/1.1 {status}\r\nRetry-After: 2\r\nContent-Length: {rest}")
    };
    let (cut, lying) = ("9\r\n\r\n1234", "13\r\nContent-Encoding: gzip\r\n\r\n{\"id\":\"oops\"}");
    stage
        .gateway
        .script(vec![
            Rule::on_body("cut").raw(refused("429 Too Many Requests", cut)).times(1),
            Rule::on_body("lying").raw(refused("503 Service Unavailable", lying)).times(1),
            Rule::on_body("always").raw(refused("500 Oh", cut)),
        ])
        .unwrap();
    let worker = stage.worker("", "max_attempts = 2").await;
    let mut spots = Vec::new();
    let names = ["cut", "lying", "always"];
    for name in names {
        spots.push(stage.submit(name, format!("{{\"n\": \"{name}\"}}")).await);
    }
    for (spot, code, status) in
        [(&spots[0], FailureCode::CutBody, 429), (&spots[1], FailureCode::LyingBody, 503)]
    {
        let (failure, _) = stage.at_home(spot, Home::Delayed).await.ticket.failure.unwrap();
        assert_eq!((failure.code, failure.status), (code, status));
    }
    for spot in &spots[..2] {
        let record = stage.record(spot).await;
        assert_eq!((record.outcome, record.status, record.attempts), (Outcome::Answered, 200, 2));
    }
    let record = stage.record(&spots[2]).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::GaveUp, 2));
    let failure = record.failure.unwrap();
    assert_eq!((failure.code, failure.status), (FailureCode::CutBody, 500));
    assert!(record.answer.body.is_empty());
    let arrivals = stage.gateway.arrivals();
    for name in names {
        let body = format!("{{\"n\": \"{name}\"}}");
        let came: Vec<_> = arrivals.iter().filter(|it| it.body == body).collect();
        let [first, second] = &*came else { panic!("{name} was tried {} times", came.len()) };
        let gap = second.since_start - first.since_start;
        assert!(gap >= Duration::from_millis(1900), "{name}: not before it was asked to: {gap:?}");
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_large_ends_dead_with_its_head() {
    let stage = Stage::set().await;
    stage.gateway.script(vec![Rule::new().body("x".repeat(20_000))]).unwrap();
    let worker = stage.worker("", "answer_limit = \"10KiB\"").await;
    let spot = stage.submit("a", "{}").await;
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.status), (Outcome::AnswerTooLarge, 200));
    assert_eq!(record.answer.body.len(), 4096);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_readable_body_is_buried_once_and_holds_nobody_up() {
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    let first = stage.worker("concurrency = 1", "").await;
    let blocker = stage.submit("blocker", "\"blocker\"").await;
    stage.arrivals(1).await;
    let (gone, broken, good) = (
        stage.submit("gone", "{}").await,
        stage.submit("broken", "{}").await,
        stage.submit("good", "{}").await,
    );
    let requests = gone.shard.request.as_bytes();
    stage.redis.command(&[b"HDEL", requests, gone.key.as_bytes()]).await;
    stage.redis.command(&[b"HSET", requests, broken.key.as_bytes(), b"\x09nonsense"]).await;
    stage.gateway.hold(false);

    for spot in [&gone, &broken] {
        let record = stage.record(spot).await;
        assert_eq!(record.outcome, Outcome::Unusable);
        assert_eq!(record.failure.unwrap().code, FailureCode::Unusable);
    }
    assert_eq!(stage.record(&good).await.outcome, Outcome::Answered);
    assert_eq!(stage.record(&blocker).await.outcome, Outcome::Answered);
    assert_eq!(stage.gateway.counts().arrived, 2);
    first.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_aborts_the_call_at_once() {
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    // Renewals are too far apart to be what tells the worker.
    let worker = stage.worker("lease = \"60s\"\nrenew = \"20s\"", "").await;
    let spot = stage.submit("a", "{}").await;
    stage.arrivals(1).await;
    stage.cancel(&spot).await;

    assert_eq!(stage.record(&spot).await.outcome, Outcome::Cancelled);
    stage.gateway.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
    stage.gateway.hold(false);
    assert_eq!(stage.record(&spot).await.outcome, Outcome::Cancelled);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_at_its_deadline() {
    let stage = Stage::set().await;
    stage.gateway.script(vec![Rule::new().delay(LATER)]).unwrap();
    let worker = stage.worker("", "").await;
    let started = Instant::now();
    let spot = stage.submit_for("a", "{}", Duration::from_secs(1)).await;
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::DeadlineExceeded, 1));
    // The call itself would last for minutes.
    assert!(started.elapsed() >= Duration::from_millis(900), "{:?}", started.elapsed());
    stage.gateway.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
    assert_eq!(stage.gateway.arrivals()[0].end.as_ref().unwrap().how, How::Gone);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_shortly_before_the_deadline_that_asks_for_another_try_is_published() {
    let stage = Stage::set().await;
    stage.gateway.script(vec![Rule::new().status(429)]).unwrap();
    stage.gateway.hold(true);
    let worker = stage.worker("", "").await;
    let (submitted, time) = (Instant::now(), Duration::from_secs(3));
    let spot = stage.submit_for("a", "{}", time).await;
    stage.arrivals(1).await;
    // Nearer to the deadline than the shortest back-off, however long the call took to begin.
    tokio::time::sleep_until((submitted + time - Duration::from_millis(450)).into()).await;
    stage.gateway.hold(false);
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.status, record.attempts), (Outcome::Answered, 429, 1));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_woken_by_the_bell_and_not_by_the_poll() {
    let stage = Stage::set().await;
    let worker = stage.worker("", "").await;
    let mut waits = Vec::new();
    for round in 0..8 {
        let spot = stage.submit(&format!("a{round}"), "{}").await;
        let submitted = Instant::now();
        stage.arrivals(round + 1).await;
        waits.push(submitted.elapsed());
        stage.record(&spot).await;
    }
    waits.sort();
    // A poll is a second away at least when one has just ended; a machine that is busy makes some of them late.
    assert!(waits[4] < Duration::from_millis(500), "{waits:?}");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_calls_run_than_there_are_slots_and_every_slot_is_used() {
    let stage = Stage::with_shards(3).await;
    stage.gateway.hold(true);
    let worker = stage.worker("concurrency = 5", "").await;
    let mut spots = Vec::new();
    for at in 0..40 {
        spots.push(stage.submit(&format!("a{at}"), "{}").await);
    }
    stage.arrivals(5).await;
    let mut leased = 0;
    for shard in 0..3 {
        let count = stage.redis.command(&["ZCARD", &stage.shard(shard).leased]).await;
        leased += count.int().unwrap();
    }
    assert_eq!((stage.gateway.counts().arrived, leased), (5, 5), "what is leased runs");
    stage.gateway.hold(false);
    for spot in &spots {
        assert_eq!(stage.record(spot).await.outcome, Outcome::Answered);
    }
    assert_eq!(stage.gateway.counts().arrived, 40);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_worker_takes_no_token_from_the_bell() {
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    let worker = stage.worker("concurrency = 1", "").await;
    let first = stage.submit("first", "{}").await;
    stage.arrivals(1).await;
    let second = stage.submit("second", "{}").await;
    // Somebody else could have it.
    assert_eq!(stage.redis.command(&["LLEN", &second.shard.bell]).await.int(), Some(1));
    stage.gateway.hold(false);
    for spot in [first, second] {
        assert_eq!(stage.record(&spot).await.outcome, Outcome::Answered);
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_holds_one_suspect_at_a_time_over_all_its_shards() {
    let stage = Stage::with_shards(4).await;
    // Declares the queue, and is gone before the suspects are there.
    stage.worker("", "").await.stop().await.unwrap();
    stage.gateway.hold(true);
    let mut spots = Vec::new();
    for at in 0..12 {
        let spot = stage.submit(&format!("s{at}"), r#"{"n": "suspect"}"#).await;
        stage.make_suspect(&spot).await;
        spots.push(spot);
    }
    let worker = stage.worker("concurrency = 16", "").await;
    let innocent = stage.submit("innocent", r#"{"n": "innocent"}"#).await;
    stage.arrivals(2).await;
    stage.at_home(&innocent, Home::Leased).await;
    let suspects = |arrivals: &[holdfast_testkit::stand_in::Arrival]| {
        let open = arrivals.iter().filter(|arrival| arrival.end.is_none());
        open.filter(|arrival| &arrival.body[..] == br#"{"n": "suspect"}"#).count()
    };
    assert_eq!(suspects(&stage.gateway.arrivals()), 1);

    stage.gateway.script(vec![Rule::new().delay(Duration::from_millis(20))]).unwrap();
    stage.gateway.hold(false);
    let mut ended = 0;
    while ended < spots.len() {
        ended = 0;
        assert!(suspects(&stage.gateway.arrivals()) <= 1, "never two at once");
        for spot in &spots {
            ended += usize::from(stage.find(spot).await.home == Some(Home::Finished));
        }
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_takes_few_calls_on_a_connection_of_http_2_gets_all_of_them_by_more() {
    let options = stand_in::Options { streams: Some(3), ..stand_in::Options::default() };
    let gateway = StandIn::start(options).await.unwrap();
    let stage = Stage { gateway, ..Stage::set().await };
    stage.gateway.hold(true);
    let worker = stage.worker("concurrency = 10", "http = \"2\"\nstreams = 3").await;
    let mut spots = Vec::new();
    for id in 0..10 {
        spots.push(stage.submit(&format!("r{id}"), "{}").await);
    }
    stage.arrivals(10).await;
    stage.gateway.hold(false);
    for spot in &spots {
        assert_eq!(stage.record(spot).await.outcome, Outcome::Answered);
    }
    worker.stop().await.unwrap();
}
