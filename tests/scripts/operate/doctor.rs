//! Each fault made by hand and told by its name; a busy healthy shard about which nothing is told.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use holdfast_core::{
    Redis,
    doctor::{Examination, Grade, Report, Role, examine},
    model::{Generation, Handle, Session},
    redis::Options,
    script::{Override, Overrule, OverruleMode, Register, Settle, SettleItem, Sweep},
};

use holdfast_testkit::RedisServer;

use super::queue;
use crate::fixture::{Item, Shard, ack, bury, fence, release, retry};

/// A registered queue with a worker, on a server that keeps an append-only file.
async fn well() -> Shard {
    let shard = Shard::start().await;
    shard.tell(&[&"CONFIG", &"SET", &"appendonly", &"yes"]).await;
    Register::Queue(&shard.keys.queue, shard.policy.shards).run(&shard.redis).await.unwrap();
    Register::Worker(Session::random(), "{\"name\":\"w\"}").run(&shard.redis).await.unwrap();
    shard
}

async fn report(shard: &Shard) -> Report {
    report_of(shard, &shard.redis, Vec::new()).await
}

async fn report_of(shard: &Shard, redis: &Redis, users: Vec<(Role, String)>) -> Report {
    let what = Examination { queues: vec![queue(shard)], users, unlisted: None };
    examine(redis, what).await.unwrap()
}

/// The names of what was found, with how many, but for notes.
fn names(report: &Report) -> BTreeMap<String, u64> {
    let told = report.findings.iter().filter(|it| it.grade != Grade::Note);
    told.map(|it| (it.name.clone(), it.count)).collect()
}

fn just(name: &str) -> BTreeMap<String, u64> {
    BTreeMap::from([(name.to_owned(), 1)])
}

/// A request in each home.
async fn one_in_each_home(shard: &Shard) -> BTreeMap<&'static str, Handle> {
    let mut all = BTreeMap::new();
    let (owner, delayed) = shard.running(&Item::new("delayed")).await;
    shard.settle(owner, delayed, retry(3_600_000)).await;
    let (owner, finished) = shard.running(&Item::new("finished")).await;
    shard.settle(owner, finished, ack("done")).await;
    let dead = shard.dead(&Item::new("dead")).await;
    let (_, leased) = shard.running(&Item::new("leased")).await;
    let pending = shard.accept(&Item::new("pending").lane("lane")).await;
    all.extend([("delayed", delayed), ("finished", finished), ("dead", dead)]);
    all.extend([("leased", leased), ("pending", pending)]);
    all
}

#[tokio::test]
async fn a_shard_that_is_well_gives_nothing_to_tell() {
    let shard = well().await;
    one_in_each_home(&shard).await;
    let report = report(&shard).await;
    assert!(names(&report).is_empty(), "{report:?}");
    assert_eq!((report.shards, report.requests, report.has_fault()), (1, 5, false));
}

/// Breaks one thing about a shard with a request in each home, and says what is told.
async fn broken(
    by: impl AsyncFnOnce(&Shard, &BTreeMap<&'static str, Handle>),
) -> BTreeMap<String, u64> {
    let shard = well().await;
    let all = one_in_each_home(&shard).await;
    by(&shard, &all).await;
    names(&report(&shard).await)
}

#[tokio::test]
async fn what_is_in_two_homes_or_in_none_is_told() {
    let told = broken(async |shard, all| {
        let handle = all["pending"];
        shard.tell(&[&"ZADD", &shard.keys.delayed, &"5000000000000", &handle.as_bytes()]).await;
    });
    assert_eq!(told.await, just("two-homes"));
    let told = broken(async |shard, all| {
        shard.tell(&[&"ZREM", &shard.keys.delayed, &all["delayed"].as_bytes()]).await;
    });
    assert_eq!(told.await, just("no-home"));
    let told = broken(async |shard, all| {
        shard
            .tell(&[&"ZADD", &shard.keys.pending, &"5000000000000", &all["pending"].as_bytes()])
            .await;
    });
    assert_eq!(told.await, just("wrong-place"));
    let told = broken(async |shard, all| {
        let (from, to) = (&shard.keys.pending, &shard.keys.suspects);
        let handle = all["pending"];
        let score = shard.find(handle.key()).await.unwrap().score.to_string();
        shard.tell(&[&"ZREM", from, &handle.as_bytes()]).await;
        shard.tell(&[&"ZADD", to, &score, &handle.as_bytes()]).await;
    });
    assert_eq!(told.await, just("wrong-set"));
}

#[tokio::test]
async fn what_lost_a_part_is_told_by_that_part() {
    let told = broken(async |shard, all| {
        shard.tell(&[&"HDEL", &shard.keys.ticket, &all["pending"].key().as_bytes()]).await;
    });
    // Both its home and its request are there without it.
    assert_eq!(told.await, BTreeMap::from([("ticket-missing".to_owned(), 2)]));
    let told = broken(async |shard, all| {
        shard
            .tell(&[&"HSET", &shard.keys.ticket, &all["pending"].key().as_bytes(), &b"\x09"])
            .await;
    });
    assert_eq!(told.await, just("ticket-unreadable"));
    let told = broken(async |shard, all| {
        shard.tell(&[&"HDEL", &shard.keys.request, &all["leased"].key().as_bytes()]).await;
    });
    assert_eq!(told.await, just("request-missing"));
    let told = broken(async |shard, all| {
        shard.tell(&[&"HDEL", &shard.keys.result, &all["finished"].key().as_bytes()]).await;
    });
    assert_eq!(told.await, just("record-missing"));
    let told = broken(async |shard, all| {
        shard
            .tell(&[&"HSET", &shard.keys.request, &all["finished"].key().as_bytes(), &"left"])
            .await;
    });
    assert_eq!(told.await, just("request-left"));
    let told = broken(async |shard, all| {
        shard
            .tell(&[&"HSET", &shard.keys.result, &all["pending"].key().as_bytes(), &"early"])
            .await;
    });
    assert_eq!(told.await, just("record-of-the-living"));
    let told = broken(async |shard, _| {
        shard.tell(&[&"HSET", &shard.keys.result, &[7; 16], &"of nobody"]).await;
    });
    assert_eq!(told.await, just("ticket-missing"));
}

#[tokio::test]
async fn what_is_left_of_another_generation_or_claim_is_told() {
    let told = broken(async |shard, all| {
        let handle = all["pending"];
        let old = Handle::new(1, Generation::random(), handle.key());
        shard.tell(&[&"ZADD", &shard.keys.finished, &"5000000000000", &old.as_bytes()]).await;
    });
    assert_eq!(told.await, just("stale-member"));
    let told = broken(async |shard, all| {
        let owner = fence(Session::random(), 7);
        let member = [owner.as_bytes().as_slice(), b"|", all["leased"].as_bytes()].concat();
        shard.tell(&[&"ZADD", &shard.keys.leased, &"5000000000000", &member]).await;
    });
    assert_eq!(told.await, just("stale-lease"));
    let told = broken(async |shard, _| {
        shard.tell(&[&"ZADD", &shard.keys.dead, &"5000000000000", &"no member of ours"]).await;
    });
    assert_eq!(told.await, just("strange-member"));
}

#[tokio::test]
async fn a_key_of_another_type_is_told_and_the_rest_is_looked_at() {
    for of in ["sessions", "pending", "leased", "ticket", "meta", "request", "bell"] {
        let (shard, other) = (well().await, Shard::start().await);
        one_in_each_home(&shard).await;
        let key = format!("hf1:{{{}/0}}:{of}", shard.keys.queue);
        shard.tell(&[&"DEL", &key]).await;
        shard.tell(&[&"SET", &key, &"junk"]).await;
        let mut elsewhere = queue(&other);
        elsewhere.name = "elsewhere".try_into().unwrap();
        let what = Examination { queues: vec![queue(&shard), elsewhere], ..Examination::default() };
        let report = examine(&shard.redis, what).await.unwrap();
        let wrong = report.findings.iter().find(|it| it.name == "wrong-type").unwrap();
        assert_eq!(wrong.grade, Grade::Fault, "{of}");
        assert!(wrong.examples[0].starts_with(&format!("{key} is a string")), "{wrong:?}");
        assert!(names(&report).contains_key("policy-missing"), "{of}: the rest: {report:?}");
        assert!(report.shards >= 1, "{of}");
    }
}

#[tokio::test]
async fn a_score_that_is_no_time_is_told_with_its_request() {
    for (home, score) in [("pending", "-inf"), ("pending", "1e300"), ("delayed", "inf")] {
        let told = broken(async |shard, all| {
            let key = format!("hf1:{{{}/0}}:{home}", shard.keys.queue);
            shard.tell(&[&"ZADD", &key, &score, &all[home].as_bytes()]).await;
        });
        assert_eq!(told.await.get("wrong-place"), Some(&1), "{home} {score}");
    }
    for (home, score) in [("finished", "inf"), ("dead", "1e300")] {
        let told = broken(async |shard, all| {
            let key = format!("hf1:{{{}/0}}:{home}", shard.keys.queue);
            shard.tell(&[&"ZADD", &key, &score, &all[home].as_bytes()]).await;
        });
        assert_eq!(told.await, just("wrong-place"), "{home} {score}");
    }
}

#[tokio::test]
async fn what_somebody_else_wrote_into_a_set_is_a_fault_and_its_key_is_told() {
    let shard = well().await;
    shard.tell(&[&"ZADD", &shard.keys.pending, &"99999999999999", &"x"]).await;
    shard.tell(&[&"ZADD", &shard.keys.pending, &"inf", &"y"]).await;
    let report = report(&shard).await;
    assert_eq!(names(&report), BTreeMap::from([("strange-member".to_owned(), 2)]));
    assert!(report.has_fault());
    assert_eq!(denied(&report, "strange-member")[0].1, std::slice::from_ref(&shard.keys.pending));
}

#[tokio::test]
async fn counters_that_drifted_are_told() {
    let told = broken(async |shard, _| {
        shard.tell(&[&"HINCRBY", &shard.keys.meta, &"bytes", &"1"]).await;
    });
    assert_eq!(told.await, just("bytes-counter"));
    let told = broken(async |shard, _| {
        shard.tell(&[&"HINCRBY", &shard.keys.lanes, &"n|lane", &"1"]).await;
    });
    assert_eq!(told.await, just("lane-counter"));
}

#[tokio::test]
async fn counters_that_hold_no_number_are_told_as_such() {
    for (in_meta, field) in
        [(true, "bytes"), (true, "seq"), (false, "n|lane"), (false, "b|lane"), (false, "r|x")]
    {
        let told = broken(async |shard, _| {
            let key = if in_meta { &shard.keys.meta } else { &shard.keys.lanes };
            shard.tell(&[&"HSET", key, &field, &"x"]).await;
        });
        assert_eq!(told.await, just("spoiled-counter"), "{field}");
    }
}

#[tokio::test]
async fn what_redis_forgot_in_a_failover_is_told() {
    let told = broken(async |shard, _| shard.set_meta("seq", 2).await);
    assert_eq!(told.await, just("sequence-regress"));
    let told = broken(async |shard, _| {
        shard.tell(&[&"HDEL", &shard.keys.meta, &"capacity"]).await;
    });
    assert_eq!(told.await, just("policy-missing"));
    let told = broken(async |shard, _| shard.set_meta("schema", 2).await);
    assert_eq!(told.await, just("newer-schema"));
    let told = broken(async |shard, _| {
        shard.set_meta("beat", shard.now().await + 3_600_000).await;
    });
    assert_eq!(told.await, just("clock-went-back"));
}

#[tokio::test]
async fn what_nobody_looks_after_is_told() {
    let told = broken(async |shard, _| {
        let leases = shard.tell(&[&"ZRANGE", &shard.keys.leased, &"0", &"-1"]).await;
        let past = (shard.now().await - 60_000).to_string();
        let member = leases.array().unwrap()[0].bytes().unwrap().to_vec();
        shard.tell(&[&"ZADD", &shard.keys.leased, &past, &member]).await;
    });
    assert_eq!(told.await, just("lapsed-lease"));
    let told = broken(async |shard, all| {
        let past = (shard.now().await - 60_000).to_string();
        shard.tell(&[&"ZADD", &shard.keys.delayed, &past, &all["delayed"].as_bytes()]).await;
    });
    assert_eq!(told.await, just("nobody-promotes"));
    let told = broken(async |shard, all| {
        let past = (shard.now().await - 60_000).to_string();
        shard.tell(&[&"ZADD", &shard.keys.finished, &past, &all["finished"].as_bytes()]).await;
    });
    assert_eq!(told.await, just("nobody-sweeps"));
    let told = broken(async |shard, _| {
        shard.tell(&[&"DEL", &holdfast_core::keys::WORKERS]).await;
    });
    assert_eq!(told.await, just("no-worker"));
}

#[tokio::test]
async fn an_operators_word_that_did_not_reach_all_shards_is_told() {
    let two = std::num::NonZeroU32::new(2).unwrap();
    let shard = Shard::with(|policy| policy.shards = two).await;
    shard.beside(1).await;
    let (mode, word) = (OverruleMode::Decide, Override::Paused(true));
    let decided = Overrule { shard: &shard.keys, shards: two, word, mode, version: 0 };
    decided.run(&shard.redis).await.unwrap();
    let told = names(&report(&shard).await);
    assert_eq!(told.get("override-uneven"), Some(&1), "{told:?}");
}

#[tokio::test]
async fn a_server_that_is_not_fit_is_told() {
    let shard = well().await;
    for (setting, value, name) in [
        ("maxmemory-policy", "allkeys-lru", "eviction-policy"),
        ("maxmemory-policy", "volatile-ttl", "eviction-policy"),
        ("appendonly", "no", "persistence-off"),
        ("maxmemory", "1", "memory-reserve"),
    ] {
        let before = shard.tell(&[&"CONFIG", &"GET", &setting]).await;
        let before = before.array().unwrap()[1].text().unwrap().to_owned();
        shard.tell(&[&"CONFIG", &"SET", &setting, &value]).await;
        let report = report(&shard).await;
        assert_eq!(names(&report), just(name), "{setting} {value}");
        assert_eq!(report.has_fault(), matches!(value, "allkeys-lru" | "1"), "{setting} {value}");
        shard.tell(&[&"CONFIG", &"SET", &setting, &before]).await;
    }
    assert!(names(&report(&shard).await).is_empty());
}

/// A connection as a user of its own.
pub(super) async fn as_user(shard: &Shard, name: &str, rights: &[&str]) -> Redis {
    let password = format!(">{name}");
    let mut words: Vec<&dyn AsRef<[u8]>> = vec![&"ACL", &"SETUSER", &name, &"on", &password];
    words.extend(rights.iter().map(|it| it as &dyn AsRef<[u8]>));
    shard.tell(&words).await;
    let url = format!("redis://{name}:{name}@127.0.0.1:{}", shard.server.port());
    Redis::open(Options::new(url)).unwrap()
}

fn denied(report: &Report, name: &str) -> Vec<(String, Vec<String>)> {
    let of = report.findings.iter().filter(|it| it.name == name);
    of.map(|it| (it.place.clone(), it.examples.clone())).collect()
}

#[tokio::test]
async fn what_a_roles_user_may_not_do_is_told_by_the_command() {
    let shard = well().await;
    as_user(&shard, "w", &["~hf1:*", "&hf1:*", "+@all", "-blpop", "-zadd"]).await;
    as_user(&shard, "r", &["~hf1:*", "+@all"]).await;
    let users = vec![(Role::Worker, "w".to_owned()), (Role::Reclaimer, "r".to_owned())];
    let report = report_of(&shard, &shard.redis, users).await;
    let place = |role: &str, user: &str| format!("{role} (user {user})");
    let commands = ["BLPOP", "ZADD"].map(str::to_owned).to_vec();
    assert_eq!(denied(&report, "command-denied"), [(place("worker", "w"), commands)]);
    let channels = vec!["SPUBLISH".to_owned()];
    assert_eq!(denied(&report, "channel-denied"), [(place("reclaimer", "r"), channels)]);
    assert!(report.has_fault());

    let users = vec![(Role::Producer, "nobody".to_owned())];
    let report = report_of(&shard, &shard.redis, users).await;
    assert_eq!(names(&report), just("no-such-user"));
}

/// A server that knows every command there is.
pub(super) async fn recent() -> Shard {
    let server = RedisServer::recent(|_| {}).await;
    let shard = Shard::on(server, |_| {}).await;
    Register::Queue(&shard.keys.queue, shard.policy.shards).run(&shard.redis).await.unwrap();
    shard
}

#[tokio::test]
async fn what_a_higher_durability_takes_is_told_apart_and_is_no_fault() {
    let shard = recent().await;
    let rights = ["~hf1:*", "&hf1:*", "+@all", "-wait", "-waitaof", "-client|setname"];
    let able = ["~hf1:*", "&hf1:*", "+@all", "-wait"];
    as_user(&shard, "p", &rights).await;
    as_user(&shard, "able", &able).await;
    let lacks = ["client|setname (fsynced, replicated)", "waitaof (fsynced)", "wait (replicated)"];
    for (user, lacks) in [("p", &lacks[..]), ("able", &lacks[2..])] {
        let users = vec![(Role::Producer, user.to_owned())];
        let report = report_of(&shard, &shard.redis, users).await;
        let lacks = lacks.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let place = format!("producer (user {user})");
        assert_eq!(denied(&report, "durability-rights"), [(place, lacks)]);
        assert_eq!(denied(&report, "command-denied"), []);
    }
    // Its own rights anybody may ask for.
    let rights = ["~hf1:*", "&hf1:*", "+@all", "-acl", "-client|getname", "-waitaof"];
    let user = as_user(&shard, "u", &rights).await;
    let lacks = ["client|getname (fsynced, replicated)", "waitaof (fsynced)"].map(str::to_owned);
    let place = "producer (user that asks)".to_owned();
    let report = report_of(&shard, &user, Vec::new()).await;
    assert_eq!(denied(&report, "durability-rights"), [(place, lacks.to_vec())]);
}

#[tokio::test]
async fn a_user_that_may_not_look_at_rights_is_told_its_own_and_nothing_is_changed() {
    let shard = well().await;
    one_in_each_home(&shard).await;
    let rights = ["~hf1:*", "&hf1:*", "+@all", "-acl", "-hincrby", "-zrem"];
    let user = as_user(&shard, "u", &rights).await;
    let before = shard.dump().await;
    let report = report_of(&shard, &user, Vec::new()).await;
    crate::fixture::assert_same("looking", &before, &shard.dump().await);
    let lost = denied(&report, "command-denied");
    let commands: Vec<&str> = lost.iter().flat_map(|it| &it.1).map(String::as_str).collect();
    assert!(commands.contains(&"HINCRBY") && commands.contains(&"ZREM"), "{report:?}");
    assert!(!commands.contains(&"ZADD") && !commands.contains(&"HSET"), "{report:?}");
    assert_eq!(lost.len(), 3, "each role");
}

/// Submits, claims, settles, sweeps without a pause until it is told to stop. Gives how many rounds that were.
async fn busy(shard: &Shard, stop: &AtomicBool, name: &str) -> usize {
    let (worker, mut round) = (Session::random(), 0);
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        shard.accept_all(&Item::many(&format!("{name}-{round}-"), 20)).await;
        let owner = fence(worker, round as u64);
        let leased = shard.claim(owner, 15).await;
        let kinds = [ack("done"), retry(1), release(true), bury(), ack("")];
        let item = |(at, lease): (usize, &holdfast_core::script::Lease)| SettleItem {
            fence: owner,
            handle: lease.handle,
            kind: kinds[at % 5].clone(),
        };
        let items: Vec<SettleItem> = leased.iter().enumerate().map(item).collect();
        Settle { shard: &shard.keys, items: &items }.run(&shard.redis).await.unwrap();
        shard.promote().await;
        if let Some(lease) = leased.first() {
            shard.cancel(lease.handle).await;
        }
        Sweep { shard: &shard.keys, limit: 100 }.run(&shard.redis).await.unwrap();
    }
    round
}

#[tokio::test(flavor = "multi_thread")]
async fn about_a_busy_shard_nothing_is_told_that_is_not_so() {
    let shard = Shard::with(|policy| {
        // Kept so shortly that what ends is swept at once.
        policy.retention = std::time::Duration::from_millis(20);
        policy.dead_retention = std::time::Duration::from_millis(30);
    })
    .await;
    shard.tell(&[&"CONFIG", &"SET", &"appendonly", &"yes"]).await;
    Register::Queue(&shard.keys.queue, shard.policy.shards).run(&shard.redis).await.unwrap();
    Register::Worker(Session::random(), "{\"name\":\"w\"}").run(&shard.redis).await.unwrap();
    let stop = AtomicBool::new(false);
    let looking = async {
        let (mut requests, mut told) = (0, Vec::new());
        for _ in 0..10 {
            let report = report(&shard).await;
            requests += report.requests;
            told.extend(report.findings.into_iter().filter(|it| it.grade != Grade::Note));
        }
        stop.store(true, Ordering::Relaxed);
        (requests, told)
    };
    let (one, two, (requests, told)) =
        tokio::join!(busy(&shard, &stop, "one"), busy(&shard, &stop, "two"), looking);
    assert!(one > 10 && two > 10 && requests > 100, "{one} and {two} rounds, {requests} requests");
    assert!(told.is_empty(), "{told:?}");
    // Once it is still, its counters are judged as well.
    let report = report(&shard).await;
    assert!(names(&report).is_empty(), "{report:?}");
    assert!(!report.findings.iter().any(|it| it.name == "counters-not-judged"));
}
