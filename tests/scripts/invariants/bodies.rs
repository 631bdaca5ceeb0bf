//! 13: bodies are bytes, written once, and no script reads one.

use bytes::Bytes;
use holdfast_core::{
    model::{Answer, Generation, Handle, Request},
    script::{Requests, SettleKind, SettleReply},
};

use crate::fixture::{Item, Monitor, Seen, Shard, bury, release, retry};

/// Bytes that no codec leaves alone.
fn wild(mark: &str) -> Bytes {
    let every: Vec<u8> = (0..=255).collect();
    [mark.as_bytes(), &every, b"{\"n\":1.0,\"big\":123456789012345678901234567890}\r\n\0", &every]
        .concat()
        .into()
}

async fn body(shard: &Shard, handle: Handle) -> Bytes {
    let keys = &[handle.key()];
    let packed = Requests { shard: &shard.keys, keys }.run(&shard.redis).await.unwrap().remove(0);
    Request::unpack(packed.unwrap()).unwrap().body
}

/// The commands that carry these bytes.
fn carrying(seen: &[Seen], mark: &str) -> Vec<String> {
    let has = |word: &Vec<u8>| word.windows(mark.len()).any(|part| part == mark.as_bytes());
    let told = |one: &Seen| {
        let place = if one.in_script { "script " } else { "" };
        format!(
            "{place}{} {}",
            one.command(),
            if one.in_script { one.text(1) } else { String::new() }
        )
    };
    seen.iter().filter(|one| one.words.iter().any(has)).map(told).collect()
}

#[tokio::test]
async fn a_body_is_written_once_as_it_came_and_no_script_ever_reads_it() {
    let shard = Shard::start().await;
    // So that no script is sent twice.
    shard.accept(&Item::new("first").by(crate::fixture::FAR + 1)).await;
    let mut monitor = Monitor::start(&shard.server).await;
    let sent = wild("<question>");
    let a = shard.accept(&Item::new("a").body(sent.clone())).await;
    let seen = monitor.seen(&shard.server).await;
    let write = format!("script HSET {}", shard.keys.request);
    assert_eq!(carrying(&seen, "<question>"), ["EVALSHA ".to_owned(), write]);

    for kind in [release(true), retry(3_600_000)] {
        let owner = shard.lease(a).await;
        assert_eq!(body(&shard, a).await, sent);
        shard.renew(owner, a).await;
        assert_eq!(shard.settle(owner, a, kind).await, SettleReply::Done);
    }
    let due = shard.find(a.key()).await.unwrap().score;
    shard.retry_now(a, due).await;
    shard.lease(a).await;
    shard.die(&[a]).await;
    let owner = shard.lease(a).await;
    assert_eq!(shard.settle(owner, a, bury()).await, SettleReply::Done);
    shard.redrive(a, Generation::random()).await;
    assert_eq!(body(&shard, a).await, sent);

    let seen = monitor.seen(&shard.server).await;
    assert_eq!(carrying(&seen, "<question>"), [""; 0]);
    for one in seen.iter().filter(|one| one.in_script && one.text(1) == shard.keys.request) {
        let command = one.command();
        assert!(
            matches!(command.as_str(), "HEXISTS" | "HSTRLEN" | "HDEL"),
            "a script runs {command}"
        );
    }
}

#[tokio::test]
async fn an_answer_comes_back_byte_for_byte_with_its_headers_also_an_empty_or_a_large_one() {
    let shard = Shard::start().await;
    let large: Bytes = wild("<large>").repeat(3000).into();
    assert!(large.len() > 1 << 20);
    for (at, sent) in [wild("<answer>"), Bytes::new(), large].into_iter().enumerate() {
        let headers = vec![("content-type".to_owned(), Bytes::from_static(b"te\xe9xt\0"))];
        let answer = Answer { headers, body: sent };
        let (owner, a) = shard.running(&Item::new(format!("r{at}"))).await;
        let kind = SettleKind::Ack { status: 418, answer: answer.clone() };
        assert_eq!(shard.settle(owner, a, kind).await, SettleReply::Done);
        let record = shard.record(a.key()).await;
        assert_eq!((record.status, record.answer), (418, answer));
    }
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_large_body_and_one_of_two_bytes_come_back_as_they_are() {
    let shard = Shard::start().await;
    for (id, sent) in [("tiny", Bytes::from_static(b"{}")), ("large", wild("").repeat(4000).into())]
    {
        let a = shard.accept(&Item::new(id).body(sent.clone())).await;
        assert_eq!(body(&shard, a).await, sent);
        let found = shard.find(a.key()).await.unwrap();
        assert_eq!(found.ticket.body_size as usize, sent.len());
    }
    shard.assert_whole().await;
}
