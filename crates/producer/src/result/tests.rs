use holdfast_core::model::{Answer, FailureCode};
use http_body_util::BodyExt;

use super::*;

fn record(outcome: Outcome) -> Record {
    Record {
        outcome,
        generation: Generation::from([0xab; 8]),
        ended_at: 1,
        attempts: 3,
        lapses: 0,
        forgiven: 0,
        failure: Some(Failure { code: FailureCode::Status, status: 503 }),
        status: 0,
        identity: None,
        answer: Answer::default(),
    }
}

async fn body_of(response: Response) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn an_answer_is_told_byte_for_byte_under_200_whatever_its_status() {
    let body = Bytes::from_static(b"{\"error\": \"caf\xe9\"}\0");
    let answer = Answer {
        headers: vec![("Content-Type".to_owned(), Bytes::from_static(b"text/plain; x=\xe9"))],
        body: body.clone(),
    };
    let response = response_of(Record { status: 500, answer, ..record(Outcome::Answered) });
    assert_eq!(response.status(), StatusCode::OK);
    let headers = response.headers();
    assert_eq!(headers[CONTENT_TYPE].as_bytes(), b"text/plain; x=\xe9");
    assert_eq!(headers[OUTCOME], "answered");
    assert_eq!(headers[STATUS], "500");
    assert_eq!(headers[ATTEMPTS], "3");
    assert_eq!(headers[GENERATION], "abababababababab");
    assert_eq!(body_of(response).await, body);
}

#[tokio::test]
async fn an_answer_without_a_type_is_given_none() {
    let response = response_of(Record { status: 204, ..record(Outcome::Answered) });
    assert!(!response.headers().contains_key(CONTENT_TYPE));
}

#[tokio::test]
async fn an_end_without_an_answer_is_a_problem_under_200() {
    for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Answered) {
        let response = response_of(record(outcome));
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[OUTCOME], outcome.word());
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert!(!response.headers().contains_key(STATUS), "the gateway gave none");
        let body: Value = serde_json::from_slice(&body_of(response).await).unwrap();
        assert_eq!(body["type"], format!("/problems/{}", outcome.word()));
        assert_eq!(body["last_failure"], json!({ "code": "status", "status": 503 }));
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_shows_its_head_and_status() {
    let answer = Answer { headers: Vec::new(), body: Bytes::from_static(b"\xffhead") };
    let response = response_of(Record { status: 200, answer, ..record(Outcome::AnswerTooLarge) });
    assert_eq!(response.headers()[STATUS], "200");
    let body: Value = serde_json::from_slice(&body_of(response).await).unwrap();
    assert_eq!(body["head"], STANDARD.encode(b"\xffhead"));
    assert_eq!(body["gateway_status"], 200);
}

/// Headers as a worker kept them.
fn kept(headers: &[(&str, &[u8])]) -> Answer {
    let header =
        |(name, value): &(&str, &[u8])| ((*name).to_owned(), Bytes::copy_from_slice(value));
    Answer { headers: headers.iter().map(header).collect(), body: Bytes::new() }
}

#[tokio::test]
async fn what_else_is_kept_of_the_gateways_head_is_told_under_names_that_nobody_acts_on() {
    let answer = || {
        kept(&[
            ("x-request-id", b"up-77"),
            ("x-request-id", b"up-78"),
            ("retry-after", b"7"),
            ("location", b"/caf\xe9"),
        ])
    };
    for outcome in [Outcome::Answered, Outcome::AnswerTooLarge] {
        let response = response_of(Record { status: 422, answer: answer(), ..record(outcome) });
        let headers = response.headers();
        let told = |name: &str| {
            headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(told("holdfast-gateway-x-request-id"), [b"up-77"], "{outcome:?}: the first");
        assert_eq!(told("holdfast-gateway-retry-after"), [b"7"], "{outcome:?}");
        assert_eq!(told("holdfast-gateway-location"), [b"/caf\xe9"], "{outcome:?}");
        for ours in ["x-request-id", "retry-after", "location"] {
            assert!(!headers.contains_key(ours), "{outcome:?}: {ours}");
        }
    }
}

#[tokio::test]
async fn a_header_that_could_hinder_its_reader_is_left_out_and_the_answer_told() {
    let long = [b'v'; 60_000];
    for bad in [&b"two\r\nlines"[..], b"nul\0", &long] {
        let answer = kept(&[("x-request-id", bad), ("retry-after", b"7")]);
        let response = response_of(Record { status: 200, answer, ..record(Outcome::Answered) });
        assert_eq!(response.status(), StatusCode::OK);
        assert!(!response.headers().contains_key("holdfast-gateway-x-request-id"));
        assert_eq!(response.headers()["holdfast-gateway-retry-after"], "7");
    }
}

#[tokio::test]
async fn an_encoding_that_came_in_several_lines_is_told_whole_and_in_order() {
    let lines: [(&str, &[u8]); 3] = [
        ("content-encoding", b"br"),
        ("content-type", b"text/plain"),
        ("content-encoding", b"gzip"),
    ];
    let response =
        response_of(Record { status: 200, answer: kept(&lines), ..record(Outcome::Answered) });
    let told: Vec<_> = response.headers().get_all(CONTENT_ENCODING).iter().collect();
    assert_eq!(told, ["br, gzip"]);
    assert_eq!(response.headers()[CONTENT_TYPE], "text/plain");
}
