//! What is seen by Redis alone.

use std::time::Duration;

use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{RedisServer, Value};

use super::{api, ctl, producer};
use crate::fleet::{Fleet, SOON, Setup};

/// The words of each line.
fn words(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digits).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_and_leases_are_listed_without_a_producer() {
    let worker = "name = \"gpu-7\"\nconcurrency = 2\nlease = \"30s\"".to_owned();
    let setup = Setup { worker, queue: "shards = 3".to_owned(), ..Setup::default() };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let mut producer = producer(&fleet).await;
    fleet.gateway.hold(true);
    let _worker = fleet.worker();
    for number in 0..9 {
        fleet.submit(&format!("r{number}"), "{\"content\":\"x\"}").await;
    }
    fleet.gateway.wait_for_arrivals(2, SOON).await.expect("both slots taken");
    producer.process.kill();
    let url = fleet.redis.url();

    let queues = ctl(&["queue", "ls", "--redis", url, "--output", "json"]).await.exited(0).json();
    assert_eq!(queues.as_array().map(Vec::len), Some(1));
    assert_eq!((&queues[0]["name"], &queues[0]["shards"]), (&"q".into(), &3.into()));
    let requests = &queues[0]["requests"];
    assert_eq!(
        (&requests["leased"], &requests["pending"]),
        (&2.into(), &7.into()),
        "over all shards"
    );
    let table = ctl(&["queue", "ls", "--redis", url]).await.exited(0);
    let rows = words(table.text());
    assert_eq!(rows[0][..6], ["QUEUE", "SHARDS", "PENDING", "SUSPECTS", "DELAYED", "LEASED"]);
    assert_eq!(rows[1][..6], ["q", "3", "7", "0", "0", "2"]);

    let leases = ctl(&["lease", "ls", "--redis", url, "--output", "json"]).await.exited(0).json();
    let leases = leases.as_array().expect("a list");
    assert_eq!(leases.len(), 2);
    for lease in leases {
        assert_eq!(
            (&lease["worker"], &lease["attempts"], &lease["lapses"]),
            (&"gpu-7".into(), &1.into(), &0.into())
        );
        let (key, handle) =
            (lease["key"].as_str().expect("a key"), lease["handle"].as_str().expect("a handle"));
        assert!(handle.ends_with(key) && handle.len() == 64);
        let shard = format!("hf1:{{q/{}}}:request", lease["shard"]);
        let there =
            fleet.redis.command(&[b"HEXISTS".as_slice(), shard.as_bytes(), &from_hex(key)]).await;
        assert_eq!(there, Value::Int(1), "the field of its request is its key");
    }
    let table = ctl(&["lease", "ls", "--redis", url, "--limit", "1"]).await.exited(0);
    let rows = words(table.text());
    assert_eq!(rows.len(), 2, "{}", table.text());
    assert_eq!((rows[1][0], rows[1][2], rows[1][3]), ("q", "default", "gpu-7"));
    assert!(table.stderr.contains("--limit"), "{}", table.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_with_what_ended_them() {
    let setup = Setup {
        queue: "max_attempts = 1\nanswer_limit = \"64KiB\"".to_owned(),
        ..Setup::default()
    };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let mut producer = producer(&fleet).await;
    let large = Rule::on_body("large").body("x".repeat(100_000));
    fleet.gateway.script(vec![large, Rule::on_body("cut").cut_after(0)]).expect("rules");
    let _worker = fleet.worker();
    for id in ["cut", "large"] {
        fleet.submit(id, &format!("{{\"content\":\"{id}\"}}")).await;
        fleet.result(id).await;
    }
    producer.process.kill();
    let url = fleet.redis.url();
    let dead = ctl(&["dead", "ls", "--redis", url, "--output", "json"]).await.exited(0).json();
    let of = |id: &str| {
        dead.as_array().and_then(|all| all.iter().find(|one| one["id"] == id)).expect("a letter")
    };
    assert_eq!(
        (&of("cut")["outcome"], &of("cut")["last_failure"]["code"]),
        (&"gave-up".into(), &"reset".into())
    );
    assert_eq!(of("large")["outcome"], "answer-too-large");
    let table = ctl(&["dead", "ls", "--redis", url]).await.exited(0);
    let rows = words(table.text());
    assert_eq!(rows.len(), 3, "{}", table.text());
    assert!(
        rows.iter().any(|row| row[..4] == ["q", "cut", "default", "gave-up"]),
        "{}",
        table.text()
    );
}

/// A lease whose ticket is lost: it is shown by what its member says.
async fn lease(fleet: &Fleet, shard: u32, expires_at: &str, number: u8) {
    let key = format!("hf1:{{q/{shard}}}:leased");
    let member = [format!("{number:032x}|").as_bytes(), &[number; 32]].concat();
    let words: [&[u8]; 4] = [b"ZADD", key.as_bytes(), expires_at.as_bytes(), &member];
    assert_eq!(fleet.redis.command(&words).await, Value::Int(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leases_that_lapse_next_come_first_in_whatever_shard_they_are() {
    let setup = Setup { queue: "shards = 2".to_owned(), ..Setup::default() };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let operator = fleet.operators().await;
    lease(&fleet, 0, "9000000000000", 1).await;
    lease(&fleet, 0, "9000000003000", 2).await;
    lease(&fleet, 1, "9000000002000", 3).await;
    lease(&fleet, 1, "8000000000000", 4).await;
    for way in [["--redis", fleet.redis.url()], ["--operator", &operator]] {
        for (limit, wanted) in [
            ("1", vec![8_000_000_000u64]),
            ("3", vec![8_000_000_000, 9_000_000_000, 9_000_000_002]),
        ] {
            let list = ["lease", "ls", "--limit", limit, "--output", "json"];
            let ran = ctl(&[&list[..], &way].concat()).await.exited(0);
            let rows = ran.json();
            let ends = rows.as_array().expect("a list").iter().map(|row| &row["expires_at"]);
            assert_eq!(ends.collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>(), "{way:?}");
            assert!(ran.stderr.contains(&format!("more than these {limit}")), "{}", ran.stderr);
        }
        for limit in ["0", "1001", "5000"] {
            let ran = ctl(&[&["lease", "ls", "--limit", limit][..], &way].concat()).await.exited(2);
            assert!(ran.stderr.contains("1..=1000"), "{way:?}: {}", ran.stderr);
        }
        let ran = ctl(&[&["dead", "ls", "--limit", "0"][..], &way].concat()).await.exited(2);
        assert!(ran.stderr.contains("--limit"), "{way:?}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_cannot_be_read_are_counted_and_hide_nothing() {
    let fleet = Fleet::start().await;
    fleet.gateway.hold(true);
    let _worker = fleet.worker();
    fleet.submit("good", "{}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("it runs");
    let foreign: [&[u8]; 4] =
        [b"ZADD", b"hf1:{q/0}:leased", b"99999999999999", b"\x1b[2Jno member of ours"];
    fleet.redis.command(&foreign).await;
    let leases =
        ctl(&["lease", "ls", "--redis", fleet.redis.url(), "--output", "json"]).await.exited(0);
    assert_eq!(leases.json().as_array().map(Vec::len), Some(1));
    assert!(leases.stderr.contains("1 member is not laid out"), "{}", leases.stderr);
    assert!(!leases.stderr.contains('\u{1b}'));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_registered_is_an_empty_list_and_one_that_is_asked_for_is_missing() {
    let redis = RedisServer::start().await;
    for what in ["queue", "lease", "dead"] {
        let ran = ctl(&[what, "ls", "--redis", redis.url()]).await.exited(0);
        assert_eq!(ran.text().lines().count(), 1, "the heading alone: {}", ran.text());
        let ran = ctl(&[what, "ls", "--redis", redis.url(), "--output", "json"]).await.exited(0);
        assert_eq!(ran.json(), serde_json::json!([]));
        let ran = ctl(&[what, "ls", "--redis", redis.url(), "--queue", "q"]).await.exited(1);
        let told = "no queue q is registered; no role has registered any";
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_away_is_told_soon_with_its_address() {
    let url = format!("redis://ad:S3CRET@127.0.0.1:{}", holdfast_testkit::free_port());
    let asked = std::time::Instant::now();
    let ran = ctl(&["queue", "ls", "--redis", &url]).await.exited(1);
    assert!(asked.elapsed() < Duration::from_secs(20));
    assert!(ran.stderr.contains("@127.0.0.1:") && !ran.stderr.contains("S3CRET"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_found_by_a_settings_file_too() {
    let fleet = Fleet::start().await;
    let path = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(path.path(), fleet.settings("producer", 1)).expect("a settings file");
    let ran = ctl(&["queue", "ls", "--config", super::arg(path.path())]).await.exited(0);
    assert_eq!(words(ran.text())[1][0], "q");
    // As a role finds it, where the command line says nothing.
    let mut doctor = super::command(&["doctor", "--output", "json"]);
    doctor.env("HOLDFAST_CONFIG", path.path());
    let found = super::ended(doctor).await;
    assert_eq!(found.json()["shards"], 1, "{}", found.stderr);
    let nowhere = ctl(&["doctor"]).await.exited(2);
    assert!(nowhere.stderr.contains("HOLDFAST_CONFIG"), "{}", nowhere.stderr);
    // The same story by both ways.
    let status = api(&fleet, &["submit", super::arg(path.path())]).await;
    assert_eq!(status.code, Some(1), "settings are no JSON");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_get_through_to_redis_is_told_where_and_why() {
    let redis = RedisServer::with(|options| {
        options.args = ["--requirepass", "S3CRET"].map(str::to_owned).to_vec();
    });
    let redis = redis.await;
    let place = redis.url().strip_prefix("redis://").expect("an address").to_owned();
    let closed = format!("127.0.0.1:{}", holdfast_testkit::free_port());
    for (url, place, why) in [
        (format!("redis://{closed}"), &closed, "connection refused"),
        (format!("redis://:wrong-S3CRET@{place}"), &place, "user or password refused"),
        (format!("redis://{place}"), &place, "user or password refused"),
        (format!("redis://:S3CRET@{place}/99"), &place, "no such database"),
    ] {
        let ran = ctl(&["queue", "ls", "--redis", &url]).await.exited(1);
        assert!(ran.stderr.contains(place.as_str()) && ran.stderr.contains(why), "{}", ran.stderr);
        assert!(!ran.stderr.contains("S3CRET"), "{}", ran.stderr);
    }
}
