//! Answers of every kind come back as they were sent.

use super::*;

/// A gzip answer: 164 bytes of JSON in 142.
const GZIP: &str = "1f8b0800000000000203358dc10a02310c44ff65ce55146ffd1591a576a31bed26cb268250faefb6\
    074f036f9837153c2322af5b399c11a0f717651f64497eccda3939abf42a2fca990cf15ac132d317f114b092597a\
    1262c5aea52792199b27f1b1517192e17bb0105a18c9b64c3b25ebd60873ddd06e019fbfc6d553995cdf24fdecd2\
    da0f89cd7953a4000000";

fn gzip() -> Vec<u8> {
    let digits = GZIP.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn response(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    [format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n").as_bytes(), body].concat()
}

#[tokio::test]
async fn an_error_keeps_its_status_type_bytes_and_request_id() {
    let body = br#"{"error":{"message":"field bad","param":"temperature","code":"bad_value"}}"#;
    let head = "422 Unprocessable Entity\r\nContent-Type: application/json\r\nx-request-id: up-77";
    let answer = whole(answer_to(response(head, body)).await);
    assert_eq!((answer.status, &answer.body[..]), (422, &body[..]));
    assert_eq!(header(&answer, "content-type"), [b"application/json"]);
    assert_eq!(header(&answer, "x-request-id"), [b"up-77"]);

    let body = b"<html><body><h1>oops</h1></body></html>";
    let head = "500 Internal Server Error\r\nContent-Type: text/html";
    let answer = whole(answer_to(response(head, body)).await);
    assert_eq!((answer.status, &answer.body[..]), (500, &body[..]));
    assert_eq!(header(&answer, "content-type"), [b"text/html"]);
}

#[tokio::test]
async fn odd_statuses_and_empty_bodies_are_answers() {
    let answer = whole(answer_to(b"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n").await);
    assert_eq!((answer.status, answer.body.len()), (418, 0));
    let answer = whole(answer_to(response("599 Odd", b"{\"e\":1}")).await);
    assert_eq!((answer.status, &answer.body[..]), (599, &b"{\"e\":1}"[..]));
    let answer = whole(answer_to(b"HTTP/1.1 204 No Content\r\n\r\n").await);
    assert_eq!((answer.status, answer.body.len(), answer.headers.len()), (204, 0, 0));
}

#[tokio::test]
async fn bodies_that_are_not_utf8_come_back_byte_for_byte() {
    let latin1 = b"{\"choices\":[{\"message\":{\"content\":\"caf\xe9 \xff\x00end\"}}]}";
    let head = "200 OK\r\nContent-Type: application/json; charset=iso-8859-1";
    let answer = whole(answer_to(response(head, latin1)).await);
    assert_eq!(&answer.body[..], latin1);
    assert_eq!(header(&answer, "content-type"), [b"application/json; charset=iso-8859-1"]);

    let utf16 = "\u{feff}{\"id\":\"cmpl-1\"}".encode_utf16().flat_map(u16::to_le_bytes);
    let utf16: Vec<u8> = utf16.collect();
    let head = "200 OK\r\nContent-Type: application/json; charset=utf-16";
    assert_eq!(&whole(answer_to(response(head, &utf16)).await).body[..], utf16);
}

#[tokio::test]
async fn an_event_stream_nobody_asked_for_is_taken_whole() {
    let raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
        Transfer-Encoding: chunked\r\n\r\n\
        3c\r\ndata: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\nda\r\n\
        46\r\nta: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n: keep-alive\n\nd\r\n\
        d\r\nata: [DONE]\n\n\r\n0\r\n\r\n";
    let answer = whole(answer_to(raw).await);
    let text = "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n\
        data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n: keep-alive\n\n\
        data: [DONE]\n\n";
    assert_eq!(&answer.body[..], text.as_bytes());
    assert_eq!(header(&answer, "content-type"), [b"text/event-stream; charset=utf-8"]);
}

#[tokio::test]
async fn a_body_that_ends_with_its_connection_is_whole() {
    let bytes = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end".to_vec();
    let answers = vec![vec![Step::Send(bytes), Step::Close]];
    let server = RawGateway::start(Reading::Fast, answers).await;
    assert_eq!(&whole(open(server.addr).ask().await).body[..], b"to the end");
}

#[tokio::test]
async fn a_gzip_answer_is_kept_as_it_came_with_its_header() {
    let head = "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip";
    let answer = whole(answer_to(response(head, &gzip())).await);
    assert_eq!(&answer.body[..], gzip());
    assert_eq!(header(&answer, "content-encoding"), [b"gzip"]);
    assert!(whole(answer_to(response(head, b"")).await).body.is_empty());
}

#[tokio::test]
async fn gzip_that_is_cut_or_a_lie_is_a_fault() {
    let head = "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip";
    let cut = &gzip()[..133];
    assert_eq!(answer_to(response(head, cut)).await, Err(Fault::CutBody));
    let lie = br#"{"id":"cmpl-1","object":"chat.completion"}"#;
    assert_eq!(answer_to(response(head, lie)).await, Err(Fault::LyingBody));
    let mut altered = gzip();
    altered[140] ^= 1;
    assert_eq!(answer_to(response(head, &altered)).await, Err(Fault::LyingBody), "the checksum");
}

#[tokio::test]
async fn an_answer_above_the_limit_keeps_its_head_and_one_at_the_limit_is_whole() {
    let body: Vec<u8> = (0..20_000u32).flat_map(|n| n.to_be_bytes()).collect();
    let chunked = [
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len())
            .as_bytes(),
        &body,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    for raw in [response("200 OK", &body), chunked] {
        let server = RawGateway::answering(raw).await;
        let limited =
            |answer_limit| Gateway::open(Target { answer_limit, ..target(server.addr) }).unwrap();
        assert_eq!(&whole(limited(body.len()).ask().await).body[..], body);
        let Ok(Reply::TooLarge(answer)) = limited(body.len() - 1).ask().await else {
            panic!("more than the limit is not taken");
        };
        assert_eq!((answer.status, &answer.body[..]), (200, &body[..answer::KEPT_HEAD]));
        let Ok(Reply::TooLarge(answer)) = limited(10).ask().await else {
            panic!("more than the limit is not taken");
        };
        assert_eq!(&answer.body[..], &body[..10]);
    }
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_more_than_the_limit_is_too_large() {
    let head = "200 OK\r\nContent-Encoding: gzip";
    let server = RawGateway::answering(response(head, &gzip())).await;
    let limited =
        |answer_limit| Gateway::open(Target { answer_limit, ..target(server.addr) }).unwrap();
    whole(limited(164).ask().await);
    let reply = limited(163).ask().await;
    assert!(matches!(reply, Ok(Reply::TooLarge(_))), "{reply:?}");
}

#[tokio::test]
async fn every_retry_after_field_is_kept() {
    let head = "429 Too Many Requests\r\nRetry-After: 3\r\nretry-after:   30   ";
    let answer = whole(answer_to(response(head, b"{\"error\":{\"message\":\"busy\"}}")).await);
    assert_eq!(header(&answer, "retry-after"), [b"3".as_slice(), b"30"]);
}

#[tokio::test]
async fn redirects_are_answers_and_are_not_followed() {
    let head = "302 Found\r\nLocation: http://127.0.0.1:9/elsewhere";
    let answer = whole(answer_to(response(head, b"")).await);
    assert_eq!(answer.status, 302);
    assert_eq!(header(&answer, "location"), [b"http://127.0.0.1:9/elsewhere"]);
}
