//! 10: no script does more on a long queue than on a short one.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{
    model::{Answer, Handle, Key, Session},
    script::{Audit, Cancel, MAX_ITEMS, Read, Renew, SettleItem, SettleKind, SettleReply},
};

use crate::fixture::{
    FAR, Item, LEASE, Monitor, Seen, Shard, ack, bury, fence, handles, release, retry,
};

/// How many there are in each state; above what any call handles.
struct Size {
    pending: usize,
    each: usize,
}

/// What one call made the server do: commands inside the script, and their words.
type Cost = BTreeMap<&'static str, (usize, usize)>;

/// Commands whose work is bounded by their arguments, once their ranges are.
const BOUNDED: &[&str] = &[
    "TIME",
    "HGET",
    "HMGET",
    "HSET",
    "HDEL",
    "HEXISTS",
    "HLEN",
    "HSTRLEN",
    "HINCRBY",
    "HRANDFIELD",
    "ZADD",
    "ZREM",
    "ZREMRANGEBYRANK",
    "ZMSCORE",
    "ZCARD",
    "ZCOUNT",
    "ZSCORE",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "LLEN",
    "RPUSH",
    "DEL",
    "EXISTS",
    "SPUBLISH",
];

/// Leases the next `count`, in calls as large as may be.
async fn take(shard: &Shard, count: usize) -> (Vec<Handle>, Vec<SettleItem>) {
    let (worker, mut taken, mut call) = (Session::random(), Vec::new(), 0);
    while taken.len() < count {
        call += 1;
        let free = MAX_ITEMS.min(count - taken.len());
        for handle in handles(&shard.claim(fence(worker, call), free).await) {
            taken.push(SettleItem { fence: fence(worker, call), handle, kind: release(true) });
        }
    }
    (taken.iter().map(|item| item.handle).collect(), taken)
}

/// Leases the next `count` and settles them so.
async fn settled(shard: &Shard, count: usize, kind: SettleKind) -> Vec<Handle> {
    let (handles, items) = take(shard, count).await;
    let items: Vec<SettleItem> =
        items.into_iter().map(|item| SettleItem { kind: kind.clone(), ..item }).collect();
    for call in items.chunks(MAX_ITEMS) {
        let replies = shard.settle_all(call).await.unwrap();
        assert!(replies.iter().all(|reply| *reply == SettleReply::Done));
    }
    handles
}

impl Size {
    /// A shard of this size; the lapsed, the due, the late and the old are what upkeep looks for.
    async fn fill(&self) -> (Shard, Vec<Handle>) {
        let shard = Shard::start().await;
        shard.accept_all(&Item::many("r", self.pending + 5 * self.each)).await;
        let old = settled(&shard, self.each, ack("done")).await;
        let dead = settled(&shard, 2 * self.each, bury()).await;
        let due = settled(&shard, self.each, retry(3_600_000)).await;
        let (lapsed, _) = take(&shard, self.each).await;
        let (late, _) = take(&shard, self.each).await;
        let now = shard.now().await;
        let again: BTreeSet<&Handle> = late.iter().collect();
        let back: Vec<_> =
            shard.leases().await.into_iter().filter(|lease| again.contains(&lease.1)).collect();
        for call in back.chunks(MAX_ITEMS) {
            let named: Vec<_> = call.iter().map(|lease| (lease.0, lease.1)).collect();
            shard.reclaim_named(&named).await;
        }
        shard.lapse(&lapsed).await;
        shard.score(&shard.keys.finished, &old, now - 1).await;
        shard.score(&shard.keys.dead, &dead[self.each..], now - 1).await;
        shard.score(&shard.keys.delayed, &due, now - 1).await;
        shard.score(&shard.keys.pending, &late, now - 1).await;
        (shard, dead[..self.each].to_vec())
    }
}

/// Runs each script with as much as one call may carry, and counts what the server did for it.
async fn costs(size: &Size) -> Cost {
    let (shard, dead) = size.fill().await;
    let mut monitor = Monitor::start(&shard.server).await;
    let mut costs = Cost::new();
    let worker = Session::random();
    let mut count = async |script: &'static str, items: usize| {
        assert!(items <= MAX_ITEMS, "{script} handled {items}");
        assert!(items >= 128, "{script} handled {items}: not as much as it may");
        let seen = monitor.seen(&shard.server).await;
        let inside: Vec<&Seen> = seen.iter().filter(|one| one.in_script).collect();
        inside.iter().for_each(|one| assert_bounded(script, one));
        costs.insert(script, (inside.len(), inside.iter().map(|one| one.words.len()).sum()));
    };

    count("submit", shard.accept_all(&Item::many("new", 256)).await.len()).await;
    count("reclaim", shard.reclaim().await.len()).await;
    count("promote", shard.promote().await.len()).await;
    count("expire", shard.expire().await.len()).await;
    count("sweep", shard.sweep().await.len()).await;
    count("claim", shard.claim(fence(worker, 1), 256).await.len()).await;
    let held: Vec<(_, Handle)> = shard
        .leases()
        .await
        .iter()
        .filter(|it| it.0 == fence(worker, 1))
        .map(|it| (it.0, it.1))
        .collect();
    let renew = Renew { shard: &shard.keys, lease: LEASE, held: &held };
    count("renew", renew.run(&shard.redis).await.unwrap().len()).await;
    count("settle", shard.settle_all(&in_all_ways(&held)).await.unwrap().len()).await;
    count("claim again", shard.claim(fence(worker, 2), 256).await.len()).await;
    let taken: Vec<Handle> = held.iter().map(|it| it.1).collect();
    let cancel = Cancel { shard: &shard.keys, handles: &taken };
    count("cancel", cancel.run(&shard.redis).await.unwrap().len()).await;
    let keys: Vec<_> = taken.iter().map(Handle::key).collect();
    let read = Read { shard: &shard.keys, keys: &keys, whole: usize::MAX, tick: true };
    count("read", read.run(&shard.redis).await.unwrap().len()).await;
    let audit = Audit { shard: &shard.keys, keys: &keys };
    count("audit", audit.run(&shard.redis).await.unwrap().len()).await;
    let items: Vec<_> =
        dead[..256].iter().map(|it| (*it, holdfast_core::model::Generation::random())).collect();
    let redrive =
        holdfast_core::script::Redrive { shard: &shard.keys, items: &items, deadline: None };
    count("redrive", redrive.run(&shard.redis).await.unwrap().len()).await;
    shard.depth().await;
    count("depth", 256).await;
    costs
}

/// A quarter each of the four ways to settle.
fn in_all_ways(held: &[(holdfast_core::model::Fence, Handle)]) -> Vec<SettleItem> {
    let kinds = [ack("done"), retry(60_000), release(true), bury()];
    let pairs = held.iter().zip(kinds.iter().cycle());
    pairs
        .map(|((fence, handle), kind)| SettleItem {
            fence: *fence,
            handle: *handle,
            kind: kind.clone(),
        })
        .collect()
}

/// The command does work in proportion to its arguments, and asks for no range of more than a call's items.
fn assert_bounded(script: &str, one: &Seen) {
    let command = one.command();
    assert!(BOUNDED.contains(&command.as_str()), "{script} runs {command}: is it bounded?");
    let most = match command.as_str() {
        "ZRANGE" => one.text(3).parse::<usize>().ok().map(|last| last + 1),
        "ZRANGEBYSCORE" => {
            let at = one.words.iter().position(|word| word == b"LIMIT");
            at.and_then(|at| one.text(at + 2).parse().ok())
        }
        "HRANDFIELD" => one.text(2).parse().ok(),
        _ => return,
    };
    assert!(
        most.is_some_and(|most| most <= MAX_ITEMS),
        "{script}: {:?}",
        one.words.iter().map(|it| it.escape_ascii().to_string()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn no_script_does_more_with_20000_pending_and_2000_leased_than_with_a_few() {
    let (few, many) = (Size { pending: 700, each: 700 }, Size { pending: 20_000, each: 2000 });
    let (few, many) = (costs(&few).await, costs(&many).await);
    for (script, (commands, words)) in few {
        let (more_commands, more_words) = many[script];
        // A bell that is full or not makes the difference of a command or two.
        assert!(
            commands.abs_diff(more_commands) <= 3,
            "{script}: {commands}, {more_commands} commands"
        );
        assert!(words.abs_diff(more_words) <= 12, "{script}: {words}, {more_words} words");
        assert!(more_words < 40 * MAX_ITEMS, "{script}: {more_words} words");
    }
}

#[tokio::test]
async fn a_claim_handles_256_items_in_all_and_says_that_there_are_more() {
    let shard = Shard::start().await;
    let past = shard.now().await - 1;
    let later: Vec<Item> = Item::many("due", 100).into_iter().map(|it| it.from(FAR - 1)).collect();
    let due = shard.accept_all(&later).await;
    shard.score(&shard.keys.delayed, &due, past).await;
    let late = shard.accept_all(&Item::many("late", 80)).await;
    shard.score(&shard.keys.pending, &late, past).await;
    for handle in &late[40..] {
        shard.tell(&[&"ZREM", &shard.keys.pending, handle.as_bytes()]).await;
        shard.tell(&[&"ZADD", &shard.keys.suspects, &past.to_string(), handle.as_bytes()]).await;
    }
    shard.accept_all(&Item::many("waiting", 300)).await;

    let (worker, mut call, mut leased, mut ended) = (Session::random(), 0, 0, 0);
    loop {
        call += 1;
        let before = shard.depth().await.delayed;
        let claimed = shard.run(shard.ask(fence(worker, call))).await;
        let promoted = (before - shard.depth().await.delayed) as usize;
        let touched = promoted + claimed.ended.len() + claimed.leases.len();
        assert!(touched <= MAX_ITEMS, "call {call} touched {touched}");
        assert!(call > 1 || touched == MAX_ITEMS, "what upkeep leaves is leased: {touched}");
        (leased, ended) = (leased + claimed.leases.len(), ended + claimed.ended.len());
        if !claimed.more {
            break;
        }
    }
    assert_eq!((leased, ended), (400, 80), "whoever goes on while there is more gets all of it");
}

#[tokio::test]
async fn what_a_claim_ends_for_want_of_a_ticket_counts_among_its_256_items() {
    let shard = Shard::start().await;
    let handles = shard.accept_all(&Item::many("waiting", 257)).await;
    let lost = handles[0].key();
    shard.tell(&[&"HDEL", &shard.keys.ticket, lost.as_bytes()]).await;
    // The last in turn is a suspect, which is looked at beside the 256 first of the others.
    let suspect = handles[256];
    shard.tell(&[&"ZREM", &shard.keys.pending, suspect.as_bytes()]).await;
    let score = (FAR + 1).to_string();
    shard.tell(&[&"ZADD", &shard.keys.suspects, &score, suspect.as_bytes()]).await;

    let claimed = shard.run(shard.ask(fence(Session::random(), 1))).await;
    assert_eq!((claimed.ended.len(), claimed.leases.len()), (1, 255));
    assert!(claimed.more, "the suspect is left for the next call");
}

#[tokio::test]
async fn a_reclaim_handles_256_leases_in_all_and_as_many_replies_say_that_there_are_more() {
    let shard = Shard::start().await;
    shard.accept_all(&Item::many("r", 600)).await;
    let (leased, _) = take(&shard, 600).await;
    let (lapsed, ahead) = leased.split_at(300);
    shard.lapse(lapsed).await;
    // As a clock that went an hour back leaves them behind.
    shard.move_leases_of(ahead, |end| end + 3_600_000).await;
    loop {
        let before: BTreeSet<_> = shard.leases().await.into_iter().collect();
        let replies = shard.reclaim().await;
        let after: BTreeSet<_> = shard.leases().await.into_iter().collect();
        let touched = before.difference(&after).count();
        assert!(touched <= MAX_ITEMS, "one call touched {touched}");
        assert_eq!(replies.len(), touched, "each is told");
        if replies.len() < MAX_ITEMS {
            break;
        }
    }
    let (longest, left) = (shard.now().await + LEASE.as_millis() as u64, shard.leases().await);
    assert_eq!(left.len(), 300, "what lapsed is taken back");
    assert!(left.iter().all(|(.., end)| *end <= longest), "what ended too late is lowered");
}

#[tokio::test]
async fn a_read_of_large_records_takes_about_1_mb_a_call_and_tells_all_in_their_order() {
    let shard = Shard::with(|it| it.capacity_bytes = 1 << 30).await;
    let mut handles = Vec::new();
    for number in 0..64 {
        let (owner, handle) = shard.running(&Item::new(format!("r{number}"))).await;
        // Half of them small: they travel with a large one.
        let body = vec![b'a'; if number % 2 == 1 { 1 << 20 } else { 9 }].into();
        let kind = SettleKind::Ack { status: 200, answer: Answer { headers: Vec::new(), body } };
        assert_eq!(shard.settle(owner, handle, kind).await, SettleReply::Done);
        handles.push(handle);
    }
    let mut keys: Vec<_> = handles.iter().map(Handle::key).collect();
    keys.insert(20, Key::from([9; 16]));
    handles.insert(20, handles[0]);
    // So that no script is sent twice.
    Read { shard: &shard.keys, keys: &[], whole: 0, tick: false }.run(&shard.redis).await.unwrap();
    let calls = async || shard.server.command_counts().await["evalsha"];
    for whole in [0, usize::MAX] {
        let before = calls().await;
        let read = Read { shard: &shard.keys, keys: &keys, whole, tick: true };
        let found = read.run(&shard.redis).await.unwrap();
        assert_eq!(calls().await - before, 32, "a large one a call");
        assert_eq!(found.len(), 65);
        for (at, (found, handle)) in found.into_iter().zip(&handles).enumerate() {
            assert_eq!(found.is_none(), at == 20);
            let Some(found) = found else { continue };
            assert_eq!(found.ticket.generation, handle.generation());
            let is_large = if at < 20 { at % 2 == 1 } else { at % 2 == 0 };
            assert_eq!(found.record.len() > 1 << 20, whole > 0 && is_large, "{at}");
        }
    }
    let (before, small) = (calls().await, &keys[..1].repeat(256));
    Read { shard: &shard.keys, keys: small, whole: 0, tick: true }.run(&shard.redis).await.unwrap();
    assert_eq!(calls().await - before, 1, "256 small ones are one");
}
