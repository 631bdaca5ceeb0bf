//! 13: bodies are bytes, written once, and no script reads one but a claim that is asked to bring it along.

use bytes::Bytes;
use holdfast_core::{
    model::{Answer, Generation, Handle, Request, Session},
    script::{Claim, Lease, RECORD_HEAD, Read, Requests, SettleKind, SettleReply},
};

use crate::fixture::{Item, Monitor, Seen, Shard, bury, fence, handles, release, retry};

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
async fn a_body_is_written_once_as_it_came_and_no_script_reads_it_unasked() {
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
async fn a_record_comes_whole_if_it_is_as_short_as_asked_for_and_else_its_head_does() {
    let shard = Shard::start().await;
    let (owner, a) = shard.running(&Item::new("a")).await;
    let answer = Answer { headers: Vec::new(), body: wild("<answer>") };
    shard.settle(owner, a, SettleKind::Ack { status: 200, answer }).await;
    let record = shard.record_bytes(a.key()).await;
    for (whole, came) in
        [(record.len(), record.len()), (record.len() - 1, RECORD_HEAD), (0, RECORD_HEAD)]
    {
        let read = Read { shard: &shard.keys, keys: &[a.key()], whole, tick: false };
        let found = read.run(&shard.redis).await.unwrap().remove(0).unwrap();
        assert_eq!((&found.record[..], found.is_whole()), (&record[..came], came == record.len()));
    }
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

/// The bodies that came along.
fn along(leases: &[Lease]) -> Vec<Option<Bytes>> {
    let body = |packed: &Bytes| Request::unpack(packed.clone()).unwrap().body;
    leases.iter().map(|lease| lease.request.as_ref().map(body)).collect()
}

#[tokio::test]
async fn small_bodies_come_along_with_a_claim_as_they_are_and_with_its_repeat_none_does() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let bodies = [wild("a"), Bytes::from_static(b"{}"), wild("c")];
    let size: usize = bodies.iter().map(Bytes::len).sum();
    let items = ["a", "b", "c"].map(Item::new).into_iter().zip(&bodies);
    let items: Vec<Item> = items.map(|(item, body)| item.body(body.clone())).collect();
    let items = shard.accept_all(&items).await;
    let claim = |call, along| Claim { along, ..shard.ask(fence(worker, call)) };

    let mut call = 0;
    for (limit, expected) in [
        (size + 1, bodies.clone().map(Some)),
        (size, [const { None }; 3]),
        (0, [const { None }; 3]),
    ] {
        call += 1;
        let leases = shard.run(claim(call, limit)).await.leases;
        assert_eq!((handles(&leases), along(&leases)), (items.clone(), expected.to_vec()));
        let again = shard.run(claim(call, limit)).await.leases;
        assert_eq!((handles(&again), along(&again)), (items.clone(), vec![None; 3]));
        for item in &items {
            let done = shard.settle(fence(worker, call), *item, release(false)).await;
            assert_eq!(done, SettleReply::Done);
        }
    }
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_body_that_is_gone_holds_up_neither_its_lease_nor_what_comes_along_beside_it() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let [a, b] = [shard.accept(&Item::new("a")).await, shard.accept(&Item::new("b")).await];
    shard.tell(&[&"HDEL", &shard.keys.request, a.key().as_bytes()]).await;
    let claim = Claim { along: usize::MAX, ..shard.ask(fence(worker, 1)) };
    let leases = shard.run(claim).await.leases;
    assert_eq!(handles(&leases), [a, b]);
    assert_eq!(along(&leases), [None, Some(body(&shard, b).await)]);
}
