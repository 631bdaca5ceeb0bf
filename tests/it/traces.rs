//! One request is one tree of spans, whoever dies on the way; and a collector is nobody's burden.

use std::time::{Duration, Instant};

use holdfast_testkit::stand_in::{Payload, Rule};
use holdfast_testkit::{RedisServer, free_port};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use crate::collector::{Collector, text};
use crate::fleet::{Fleet, SOON, Setup};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const METRIC: &str = "holdfast_trace_spans_total";

async fn traced(collector: &Collector) -> Fleet {
    let setup = Setup { more: collector.settings(), ..Setup::default() };
    Fleet::with(setup, RedisServer::start().await).await
}

/// Submits a request in the caller's trace.
async fn submit_in_trace(fleet: &Fleet, id: &str, flags: &str) {
    let traceparent = format!("00-{TRACE}-{CALLER}-{flags}");
    let headers = [("content-type", "application/json"), ("traceparent", traceparent.as_str())];
    let item = format!("{{\"id\":\"{id}\",\"payload\":{{\"content\":\"<{id}>\"}}}}");
    let url = fleet.api("/v1/queues/q/requests");
    let answer = fleet.http.request("POST", &url, &headers, item).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Trace and span that the calls of a request carried to the gateway, in their order.
fn carried(fleet: &Fleet, mark: &str) -> Vec<(String, String)> {
    let arrivals = fleet.arrivals_of(mark).into_iter();
    let parts = arrivals.map(|arrival| {
        let text = arrival.headers["traceparent"].to_str().expect("a text").to_owned();
        let parts: Vec<&str> = text.split('-').collect();
        assert_eq!((parts[0], parts[3]), ("00", "01"), "{text}");
        (parts[1].to_owned(), parts[2].to_owned())
    });
    parts.collect()
}

/// The spans of a request: of its submit, and of its attempts in their order.
fn tree(spans: Vec<(String, Span)>, id: &str) -> (Span, Vec<Span>) {
    let is_its = |(_, span): &(String, Span)| {
        text(&span.attributes, "holdfast.id").is_some_and(|told| told == id)
    };
    let (submits, mut attempts): (Vec<_>, Vec<_>) =
        spans.into_iter().filter(is_its).partition(|(service, _)| service == "holdfast-producer");
    assert!(attempts.iter().all(|(service, _)| service == "holdfast-worker"));
    attempts.sort_by_key(|(_, span)| text(&span.attributes, "holdfast.attempt"));
    let [(_, submit)] = &submits[..] else { panic!("{} submits", submits.len()) };
    (submit.clone(), attempts.into_iter().map(|(_, span)| span).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_worker_was_killed_is_one_tree_with_its_attempts_linked() {
    let collector = Collector::start().await;
    let fleet = traced(&collector).await;
    let _reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker();
    submit_in_trace(&fleet, "r", "01").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("the first attempt");
    doomed.process.kill();
    fleet.gateway.hold(false);
    let mut heir = fleet.worker();
    assert_eq!(fleet.result("r").await.0, "answered");
    assert!(heir.process.terminate().await.success(), "{}", heir.process.output());

    let (submit, attempts) = tree(collector.wait_for_spans(2).await, "r");
    let [attempt] = &attempts[..] else { panic!("{} attempts were told", attempts.len()) };
    let calls = carried(&fleet, "<r>");
    let [(first_trace, first), (second_trace, second)] = &calls[..] else {
        panic!("{} calls", calls.len())
    };
    for trace in [&hex(&submit.trace_id), &hex(&attempt.trace_id), first_trace, second_trace] {
        assert_eq!(trace, TRACE);
    }
    assert_eq!(hex(&submit.parent_span_id), CALLER);
    assert_eq!(attempt.parent_span_id, submit.span_id);
    assert_eq!(&hex(&attempt.span_id), second, "the gateway goes on from its attempt");
    let links: Vec<_> =
        attempt.links.iter().map(|it| (hex(&it.trace_id), hex(&it.span_id))).collect();
    assert_eq!(links, [(TRACE.to_owned(), first.clone())], "the attempt of the killed worker");

    assert_eq!((submit.kind(), attempt.kind()), (SpanKind::Producer, SpanKind::Client));
    let told = |key| text(&attempt.attributes, key);
    assert_eq!(told("holdfast.queue").as_deref(), Some("q"));
    assert_eq!(told("holdfast.attempt").as_deref(), Some("2"));
    assert_eq!(told("holdfast.lapses").as_deref(), Some("1"));
    assert_eq!(told("http.response.status_code").as_deref(), Some("200"));
    assert_eq!(told("holdfast.outcome").as_deref(), Some("ack"));
    assert_eq!(told("holdfast.generation"), text(&submit.attributes, "holdfast.generation"));
    assert_eq!(text(&submit.attributes, "holdfast.outcome").as_deref(), Some("accepted"));
    assert!(attempt.start_time_unix_nano >= submit.start_time_unix_nano);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_retried_is_a_tree_of_its_own_and_a_repeat_of_its_submit_is_none() {
    let collector = Collector::start().await;
    let fleet = traced(&collector).await;
    fleet.gateway.script(vec![Rule::new().status(503).times(1)]).expect("a rule");
    let mut worker = fleet.worker();
    let item = "{\"id\":\"r\",\"timeout\":\"10m\",\"payload\":{\"content\":\"<r>\"}}";
    assert_eq!(fleet.post(item).await.status, 202);
    assert_eq!(fleet.result("r").await.0, "answered");
    assert_eq!(fleet.post(item).await.status, 200, "a repeat");
    assert!(worker.process.terminate().await.success(), "{}", worker.process.output());

    let (submit, attempts) = tree(collector.wait_for_spans(3).await, "r");
    assert!(submit.parent_span_id.is_empty(), "nobody called within a trace");
    let [first, second] = &attempts[..] else { panic!("{} attempts", attempts.len()) };
    for attempt in [first, second] {
        assert_eq!(
            (&attempt.trace_id, &attempt.parent_span_id),
            (&submit.trace_id, &submit.span_id)
        );
    }
    assert!(first.links.is_empty());
    assert_eq!(second.links.iter().map(|link| &link.span_id).collect::<Vec<_>>(), [&first.span_id]);
    let calls: Vec<String> = carried(&fleet, "<r>").into_iter().map(|(_, span)| span).collect();
    assert_eq!(calls, [hex(&first.span_id), hex(&second.span_id)]);
    let status = |span: &Span| span.status.as_ref().map_or(StatusCode::Unset, |it| it.code());
    assert_eq!((status(first), status(second)), (StatusCode::Error, StatusCode::Unset));
    assert_eq!(text(&first.attributes, "error.type").as_deref(), Some("5xx"));
    assert_eq!(text(&first.attributes, "holdfast.outcome").as_deref(), Some("retry"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_endpoint_the_callers_trace_is_passed_on_as_it_came_and_nothing_is_told() {
    let fleet = Fleet::start().await;
    let worker = fleet.worker();
    submit_in_trace(&fleet, "r", "01").await;
    assert_eq!(fleet.result("r").await.0, "answered");
    assert_eq!(carried(&fleet, "<r>"), [(TRACE.to_owned(), CALLER.to_owned())]);
    for ops in [worker.ops, fleet.producers_ops()[0]] {
        let url = format!("http://127.0.0.1:{ops}/metrics");
        let told = fleet.http.request("GET", &url, &[], "").await;
        assert!(!told.text().contains(METRIC), "{}", told.text());
    }
    assert!(!worker.process.output().contains("traces open"), "{}", worker.process.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_its_caller_does_not_record_is_passed_on_as_it_came_and_nobody_is_told() {
    let collector = Collector::start().await;
    let fleet = traced(&collector).await;
    let mut worker = fleet.worker();
    submit_in_trace(&fleet, "quiet", "00").await;
    assert_eq!(fleet.result("quiet").await.0, "answered");
    let call = fleet.arrivals_of("<quiet>").remove(0);
    assert_eq!(call.headers["traceparent"], format!("00-{TRACE}-{CALLER}-00").as_str());
    submit_in_trace(&fleet, "loud", "01").await;
    assert_eq!(fleet.result("loud").await.0, "answered");
    assert!(worker.process.terminate().await.success(), "{}", worker.process.output());
    for (_, span) in collector.wait_for_spans(2).await {
        assert_eq!(text(&span.attributes, "holdfast.id").as_deref(), Some("loud"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_hangs_or_refuses_stops_nothing() {
    let hangs = Collector::start().await;
    hangs.answers(Rule { hang: true, ..Rule::default() });
    let refuses = Collector::start().await;
    refuses.answers(Rule { status: Some(400), ..Rule::default() });
    let away = format!("[traces]\nendpoint = \"http://127.0.0.1:{}\"\n", free_port());
    for (more, is_refused) in [(away, false), (hangs.settings(), false), (refuses.settings(), true)]
    {
        let setup = Setup { more, ..Setup::default() };
        let fleet = Fleet::with(setup, RedisServer::start().await).await;
        let mut worker = fleet.worker();
        for number in 0..50 {
            fleet.submit(&format!("r-{number}"), "{}").await;
        }
        for number in 0..50 {
            assert_eq!(fleet.result(&format!("r-{number}")).await.0, "answered");
        }
        if is_refused {
            holdfast_testkit::eventually("the refusal is counted", SOON, async || {
                match fleet.metric(&worker, METRIC, "refused").await {
                    50.0.. => Ok(()),
                    count => Err(count.to_string()),
                }
            })
            .await;
        }
        let asked = Instant::now();
        assert!(worker.process.terminate().await.success(), "{}", worker.process.output());
        assert!(asked.elapsed() < Duration::from_secs(8), "it ended after {:?}", asked.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marked_bodies_headers_and_answers_appear_in_no_exported_byte() {
    const MARKS: [&str; 6] =
        ["PROMPT-MARK", "ANSWER-MARK", "HEADER-MARK", "NOTE-MARK", "PATH-MARK", "KEY-MARK"];
    let collector = Collector::start().await;
    let setup = Setup {
        more: collector.settings(),
        queue: "allow_headers = [\"x-team\"]\nallow_paths = [\"/v1/PATH-MARK\"]".to_owned(),
        ..Setup::default()
    };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let answer = Rule {
        body: Some(Payload("{\"a\":\"ANSWER-MARK\"}".into())),
        headers: [("x-other".to_owned(), "HEADER-MARK".to_owned())].into(),
        ..Rule::default()
    };
    fleet.gateway.script(vec![answer]).expect("a rule");
    let mut worker = fleet.worker();
    let item = "{\"id\":\"r\",\"path\":\"/v1/PATH-MARK\",\"headers\":{\"x-team\":\"HEADER-MARK\"},\
        \"metadata\":{\"a\":\"NOTE-MARK\"},\"payload\":{\"content\":\"PROMPT-MARK\"}}";
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", "HEADER-MARK"),
        ("authorization", "Bearer KEY-MARK"),
        ("tracestate", "vendor=HEADER-MARK"),
    ];
    let url = fleet.api("/v1/queues/q/requests");
    let told = fleet.http.request("POST", &url, &headers, item).await;
    assert_eq!(told.status, 202, "{}", told.text());
    let (_, record) = fleet.result("r").await;
    assert!(record.text().contains("ANSWER-MARK"), "{}", record.text());
    assert!(worker.process.terminate().await.success(), "{}", worker.process.output());
    assert_eq!(collector.wait_for_spans(2).await.len(), 2);
    for body in collector.bodies() {
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!(text.contains("holdfast.queue"), "{text}");
        for mark in MARKS {
            assert!(!text.contains(mark), "{mark} was told: {text}");
        }
    }
}
