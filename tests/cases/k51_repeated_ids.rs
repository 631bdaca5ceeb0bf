//! K51: one id several times in a batch.
//!
//! Taken silently, the outputs can't be matched to the inputs any more.

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::{aftermath, stage};

/// Each line has its own verdict, which names the first line with the id; the request runs once.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_comes_again_is_told_so_and_runs_once() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let ids = stage::ids("k51", 2);
    let line = |id: &str, text: &str| {
        let payload = stage::payload(text);
        format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{payload}}}\n")
    };
    let batch = [
        line(&ids[0], "first"),
        line(&ids[1], "other"),
        line(&ids[0], "second"),
        line(&ids[0], "first"),
        line("", "nameless"),
    ];
    let told = stage::batch(&fleet, &batch.concat()).await;
    let statuses: Vec<u64> = told.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [202, 202, 422, 200, 400]);
    for again in [&told[2], &told[3]] {
        assert_eq!(again["same_id_as"], 0, "{again}");
    }
    assert_eq!(told[2]["problem"]["type"], "/problems/id-reused");
    assert_eq!(told[4]["problem"]["type"], "/problems/invalid-id");
    let worker = fleet.worker();
    aftermath::of(&fleet, &ids, &[&worker]).await;
    assert_eq!(fleet.arrivals_of("first").len(), 1);
    assert_eq!(fleet.arrivals_of("second").len(), 0);
}
