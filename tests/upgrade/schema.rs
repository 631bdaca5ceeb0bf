//! Keys of a newer schema: there is no going side by side, and this version says so.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_testkit::Process;

use crate::fleet::Fleet;
use crate::programs::Programs;
use crate::stage::{Api, fleet};

const LIMIT: Duration = Duration::from_secs(20);

/// The fields of a hash.
async fn fields(fleet: &Fleet, key: &str) -> BTreeMap<String, String> {
    let answer = fleet.redis.command(&["HGETALL", key]).await;
    let parts = answer.array().expect("fields").iter();
    let words: Vec<String> = parts
        .map(|part| String::from_utf8_lossy(part.bytes().expect("bytes")).into_owned())
        .collect();
    words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// Each role ends at once, and says why.
async fn all_refuse(fleet: &Fleet, version: &Programs) {
    let Programs { producer, worker, reclaimer } = version;
    for (name, program) in [("producer", producer), ("worker", worker), ("reclaimer", reclaimer)] {
        let mut role = fleet.role(name, program.to_str().expect("text"), &[]);
        let status = role.process.wait(LIMIT).await;
        let told = role.process.output();
        assert_eq!(status.code(), Some(1), "{name}: {told}");
        let why = "queue q has keys of schema 2, which this version does not know";
        assert!(told.contains(why), "{name}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_refuses_keys_of_a_newer_schema_and_says_which_and_changes_nothing() {
    let older = Programs::older();
    let fleet: Fleet = fleet("").await;
    let mut api = Api::start(&fleet, &older.producer).await;
    api.submit(&fleet, "kept", "").await;
    assert!(api.role.process.terminate().await.success());
    let (meta, registry) = ("hf1:{q/0}:meta", "hf1:queues");
    fleet.redis.command(&["HSET", meta, "schema", "2"]).await;
    let before = fields(&fleet, meta).await;
    all_refuse(&fleet, &older).await;
    // A newer version says it in the registry as well.
    fleet.redis.command(&["HSET", registry, "q", "1 2"]).await;
    all_refuse(&fleet, &older).await;
    fleet.redis.command(&["HSET", registry, "q", "1 1"]).await;
    let words = ["doctor", "--redis", fleet.redis.url()];
    let doctor = Process::run(env!("CARGO_BIN_EXE_it-holdfastctl"), &words, &[]).await;
    assert!(doctor.stdout.contains("newer-schema"), "{}", doctor.stdout);
    assert_eq!(fields(&fleet, meta).await, before);
    assert_eq!(fleet.count("pending").await, 1);
}
