//! Answers that are small on the wire and large unpacked.

use std::time::{Duration, Instant};

use holdfast_testkit::RedisServer;
use holdfast_testkit::stand_in::Rule;

use super::{alone, mebibytes, resident};
use crate::fleet::{Fleet, SOON, Setup};

/// How many bombs come at once, and of how many parts each is made.
const BOMBS: usize = 8;
const PARTS: usize = 100_000;

/// What the worker may need for them: each body as it came, twice while it is put together.
const ROOM: u64 = 256 << 20;

/// 64 KiB of zeros in gzip: 96 bytes, most of which are zeros as well.
fn part() -> Vec<u8> {
    let mut part =
        b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xed\xc1\x01\x01\0\0\0\x80\x90\xfe\xaf\xee\x08\x0a"
            .to_vec();
    part.resize(87, 0);
    part.extend_from_slice(b"\x6a\xeb\x8e\x97\xd7\0\0\x01\0");
    part
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_unpack_without_end_cost_no_more_than_they_are_long() {
    let _alone = alone().await;
    let fleet = Fleet::with(Setup::default(), RedisServer::start().await).await;
    let bomb = Rule::on_body("bomb").header("content-encoding", "gzip").body(part().repeat(PARTS));
    fleet.gateway.script(vec![bomb]).expect("a rule");
    let worker = fleet.worker();
    fleet.submit("first", "{}").await;
    fleet.result("first").await;
    let before = resident(worker.process.pid());
    for number in 0..BOMBS {
        fleet.submit(&format!("bomb-{number}"), "{\"content\":\"bomb\"}").await;
    }
    fleet.gateway.wait_for_arrivals(2, SOON).await.expect("a bomb is asked for");
    let asked = Instant::now();
    fleet.submit("other", "{}").await;
    assert_eq!(fleet.result("other").await.0, "answered");
    let took = asked.elapsed();
    for number in 0..BOMBS {
        let (outcome, answer) = fleet.result(&format!("bomb-{number}")).await;
        assert_eq!(outcome, "answer-too-large", "{}", answer.status);
    }
    let after = resident(worker.process.pid());
    println!(
        "{BOMBS} answers of {} MiB that unpack to {} MiB each; another was answered in {} ms; \
         memory {} MiB before, {} MiB after",
        mebibytes((96 * PARTS) as u64),
        mebibytes((65_536 * PARTS) as u64),
        took.as_millis(),
        mebibytes(before),
        mebibytes(after),
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(after < before + ROOM, "{} MiB more", mebibytes(after - before));
}
