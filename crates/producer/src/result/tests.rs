use bytes::Bytes;
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
