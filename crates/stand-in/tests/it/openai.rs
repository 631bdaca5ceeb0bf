use bytes::Bytes;
use holdfast_stand_in::{BODY_LIMIT, Options, StandIn};
use hyper::{Method, Version};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::{Bare, CHAT, body_of, call, call_by, get, post, scripted};

const HELLO: &str = r#"{"model": "m", "messages": [{"role": "user", "content": "hello"}]}"#;
/// Of HELLO, by sha256sum.
const HELLO_SHA256: &str = "b938e12c55b4361b3a7664f3301dd426175f0fcdc7f644d69646b72e1e89b0f5";

#[tokio::test]
async fn a_chat_completion_has_openais_shape_and_names_request_and_arrival() {
    let it = scripted(vec![]).await;
    let reply = post(&it, CHAT, HELLO).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    assert_eq!((reply.header("stand-in-arrival"), reply.header("x-request-id")), ("1", "req_1"));
    let answer = reply.json();
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("m")));
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"), "{answer}");
    assert!(answer["created"].as_u64().unwrap() > 1_700_000_000, "{answer}");
    let choice = &answer["choices"][0];
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    assert_eq!(choice["message"]["role"], "assistant");
    let content = choice["message"]["content"].as_str().unwrap();
    assert_eq!(content, format!("arrival 1, sha256 {HELLO_SHA256}: hello"));
    assert_eq!(answer["stand_in"], json!({"arrival": 1, "body_sha256": HELLO_SHA256}));
    let tokens = |name: &str| answer["usage"][name].as_u64().unwrap();
    assert_eq!(tokens("total_tokens"), tokens("prompt_tokens") + tokens("completion_tokens"));
}

#[tokio::test]
async fn one_byte_or_one_arrival_more_makes_another_answer() {
    let it = scripted(vec![]).await;
    let content = async |body: String| {
        post(&it, CHAT, body).await.json()["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = content(HELLO.to_owned()).await;
    let again = content(HELLO.to_owned()).await;
    let spaced = content(format!("{HELLO} ")).await;
    assert_eq!(again, first.replace("arrival 1", "arrival 2"));
    assert_ne!(spaced, first.replace("arrival 1", "arrival 3"), "the digest is of the exact bytes");
}

#[tokio::test]
async fn a_stream_gives_the_same_text_in_events_and_ends_in_done() {
    let it = scripted(vec![]).await;
    let ask = |stream: bool| {
        format!(r#"{{"messages": [{{"role": "user", "content": "a b"}}], "stream": {stream}}}"#)
    };
    let reply = post(&it, CHAT, ask(true)).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    let events: Vec<&str> =
        text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(*done, "[DONE]");
    let chunks: Vec<Value> =
        chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect();
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"), "{text}");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    let content = deltas.collect::<String>();
    assert!(content.starts_with("arrival 1, sha256 ") && content.ends_with(": a b"), "{content}");
}

#[tokio::test]
async fn a_stream_leaves_event_by_event() {
    let it = scripted(vec![]).await;
    let (bytes, _) = {
        let body = r#"{"stream": true}"#;
        let mut bare = Bare(TcpStream::connect(it.address()).await.unwrap());
        let length = body.len();
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        bare.0.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        bare.all().await
    };
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("transfer-encoding: chunked"), "{text}");
    let events = text.matches("data: ").count();
    // Each event is a chunk: a line with its length in hex, the event, and the chunk's end.
    assert_eq!(text.matches("\r\ndata: ").count(), events, "{text}");
    assert!(events > 3 && text.ends_with("\r\n0\r\n\r\n"), "{text}");
}

#[tokio::test]
async fn models_completions_and_embeddings_answer_too() {
    let it = scripted(vec![]).await;
    let models = get(&it, "/v1/models").await.json();
    assert_eq!(
        (&models["object"], &models["data"][0]["object"]),
        (&json!("list"), &json!("model"))
    );
    assert_eq!(get(&it, "/v1/models/any").await.json()["id"], "any");

    let completion = post(&it, "/v1/completions", r#"{"prompt": "once"}"#).await.json();
    assert_eq!(
        (&completion["object"], &completion["model"]),
        (&json!("text_completion"), &json!("stand-in"))
    );
    assert!(completion["choices"][0]["text"].as_str().unwrap().ends_with(": once"), "{completion}");

    let embeddings = post(&it, "/v1/embeddings", r#"{"input": ["a", "b", "a"]}"#).await.json();
    let [a, b, again] = [0, 1, 2].map(|at| &embeddings["data"][at]["embedding"]);
    assert_eq!(embeddings["data"].as_array().unwrap().len(), 3);
    assert!(a.as_array().unwrap().iter().all(Value::is_number), "{embeddings}");
    assert!(a != b && a == again, "a vector depends on its input alone: {embeddings}");
    assert_eq!(embeddings["data"][2]["index"], 2);
}

#[tokio::test]
async fn a_refusal_is_openais_error_object() {
    let it = scripted(vec![]).await;
    for (method, path, body, status, kind) in [
        (Method::POST, CHAT, "not json", 400, "invalid_request_error"),
        (Method::POST, CHAT, "[]", 400, "invalid_request_error"),
        (Method::GET, CHAT, "", 405, "invalid_request_error"),
        (Method::POST, "/v1/none", "{}", 404, "invalid_request_error"),
    ] {
        let reply = call(&it, method, path, body).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["type"]), (status, &json!(kind)), "{path} {body}");
        let keys: Vec<&String> = error.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["code", "message", "param", "type"]);
        assert!(!error["message"].as_str().unwrap().contains(body) || body.is_empty());
    }
    assert_eq!(it.counts().arrived, 4, "a refused request has arrived all the same");
}

#[tokio::test]
async fn http_2_by_prior_knowledge_answers_many_streams_at_once() {
    let it = StandIn::start(Options::default()).await.unwrap();
    let address = it.address();
    let mut calls = JoinSet::new();
    for at in 0..100 {
        let body =
            Bytes::from(format!(r#"{{"messages": [{{"role": "user", "content": "n{at}"}}]}}"#));
        calls.spawn(async move {
            let reply = call_by(Version::HTTP_2, address, Method::POST, CHAT, body).await.unwrap();
            let content =
                reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
            assert!(content.ends_with(&format!(": n{at}")), "{content}");
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    assert_eq!((it.counts().arrived, it.counts().given), (100, 100));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_is_no_arrival() {
    let it = scripted(vec![]).await;
    let mut declared = Bare(TcpStream::connect(it.address()).await.unwrap());
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", BODY_LIMIT + 1);
    declared.0.write_all(head.as_bytes()).await.unwrap();
    let (answer, _) = declared.all().await;
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    let error: Value = serde_json::from_slice(body_of(&answer).unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "body_too_large");

    // Where nothing is inferred: a digest of so much takes its time in a build without optimisation.
    let most = call(&it, Method::POST, "/v1/none", vec![b' '; BODY_LIMIT]).await;
    assert_eq!(most.status, 404, "the limit itself is taken");
    assert_eq!(it.arrivals()[0].body.len(), BODY_LIMIT);
    assert_eq!(it.counts().arrived, 1);
}
