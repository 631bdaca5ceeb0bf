use holdfast_stand_in::{How, Page};
use hyper::Method;
use serde_json::json;

use crate::client::{Bare, CHAT, SOON, call, get, post, scripted};

#[tokio::test]
async fn a_script_is_set_and_cleared_over_http() {
    let it = scripted(vec![]).await;
    let set =
        post(&it, "/stand-in/script", r#"[{"status": 503, "times": 1}, {"status": 500}]"#).await;
    assert_eq!((set.status, set.json()), (200, json!({"rules": 2})));
    assert_eq!(post(&it, CHAT, "{}").await.status, 503);
    assert_eq!(post(&it, CHAT, "{}").await.status, 500);
    call(&it, Method::DELETE, "/stand-in/script", "").await;
    assert_eq!(post(&it, CHAT, "{}").await.status, 200);
    assert_eq!(it.counts().arrived, 3, "calls of the control are no arrivals");
}

#[tokio::test]
async fn an_unusable_script_is_refused_and_says_where() {
    let it = scripted(vec![]).await;
    for (script, says) in [
        (r#"[{"status": 42}]"#, "rule 1: status must be from 200 to 999"),
        (r#"[{"staus": 503}]"#, "unknown field `staus`"),
        (r#"[{"body": {"base64": "?"}}]"#, "base64 must be"),
        ("{}", "line 1"),
    ] {
        let refused = post(&it, "/stand-in/script", script).await;
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(refused.status == 400 && message.contains(says), "{script}: {message}");
    }
}

#[tokio::test]
async fn a_hold_is_set_and_released_over_http() {
    let it = scripted(vec![]).await;
    post(&it, "/stand-in/hold", r#"{"hold": true}"#).await;
    let mut bare = Bare::post(&it, "{}").await;
    it.wait_for_arrivals(1, SOON).await.unwrap();
    assert!(bare.is_silent().await);
    assert_eq!(get(&it, "/stand-in/counts").await.json()["given"], 0);
    post(&it, "/stand-in/hold", r#"{"hold": false}"#).await;
    bare.body(1).await;
    assert_eq!(post(&it, "/stand-in/hold", "{}").await.status, 400);
}

#[tokio::test]
async fn arrivals_are_read_page_by_page_and_byte_for_byte() {
    let it = scripted(vec![]).await;
    let replies = [
        post(&it, CHAT, vec![0xff, 0]).await,
        post(&it, CHAT, "{}").await,
        get(&it, "/v1/models").await,
    ];

    let page = |query: &str| {
        let path = format!("/stand-in/arrivals{query}");
        let it = &it;
        async move { serde_json::from_slice::<Page>(&get(it, &path).await.body).unwrap() }
    };
    let first = page("?limit=2").await;
    let rest = page(&format!("?since={}", first.next)).await;
    assert_eq!((first.arrivals.len(), first.next, rest.arrivals.len(), rest.next), (2, 2, 1, 3));
    assert_eq!(page("?since=3").await.next, 3, "an empty page stays where it was");
    assert_eq!(first.counts, it.counts());

    let odd = &first.arrivals[0];
    assert_eq!((odd.number, odd.body_bytes, odd.body_base64.as_deref()), (1, 2, Some("/wA=")));
    let end = odd.end.as_ref().unwrap();
    assert_eq!(
        (end.how, end.status, end.answer_bytes),
        (How::Given, Some(400), replies[0].body.len() as u64)
    );
    assert!(
        odd.headers.contains(&("content-length".to_owned(), "2".to_owned())),
        "{:?}",
        odd.headers
    );
    let bare = page("?bodies=false").await;
    assert!(bare.arrivals.iter().all(|arrival| arrival.body_base64.is_none()));
    assert_eq!(bare.arrivals[0].body_sha256, odd.body_sha256);

    assert_eq!(get(&it, "/stand-in/arrivals/1/body").await.body, &[0xff, 0][..]);
    for (reply, number) in replies.iter().zip(1..) {
        assert_eq!(get(&it, &format!("/stand-in/arrivals/{number}/answer")).await.body, reply.body);
    }
    for none in
        ["arrivals/9/body", "arrivals/0/body", "arrivals/1/head", "arrivals/x/body", "nothing"]
    {
        assert_eq!(get(&it, &format!("/stand-in/{none}")).await.status, 404, "{none}");
    }
    assert_eq!(
        get(&it, "/stand-in/arrivals?sinse=1").await.status,
        400,
        "a slip is not passed over"
    );
}
