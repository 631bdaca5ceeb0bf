//! 11: at `maxmemory` everything runs but submit and redrive.

use holdfast_core::script;
use holdfast_testkit::Value;

use crate::fixture::{Item, Shard, run_raw};

#[tokio::test]
async fn at_maxmemory_redis_refuses_submit_and_redrive_and_lets_every_other_script_in() {
    let shard = Shard::start().await;
    shard.running(&Item::new("a")).await;
    shard.fill_memory().await;
    for script in script::all() {
        // Arguments that no script takes: one that runs says so.
        let answer = run_raw(&shard, &script, &[]).await;
        let is_oom = matches!(&answer, Value::Error(text) if text.starts_with("OOM"));
        let must_be = matches!(script.name, "submit" | "redrive");
        assert_eq!(is_oom, must_be, "{}: {answer:?}", script.name);
    }
    shard.assert_whole().await;
}
