//! K49: a byte order mark, CRLF, blank lines, and a last line without an end.
//!
//! A strict reader drops the first record because of the mark, a careless one takes a blank line for a broken record.

use crate::fleet::{Fleet, Setup};
use crate::pace::beside_others;
use crate::{aftermath, stage};

fn item(id: &str) -> String {
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload(id))
}

/// Three requests are three, and a line is told by its place in the file.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_around_the_lines_is_passed_over_and_counted() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let ids = stage::ids("k49", 3);
    let [one, two, three] = [&ids[0], &ids[1], &ids[2]].map(|id| item(id));
    let batch = format!("\u{feff}{one}\r\n\r\n{two}\r\n   \r\n{{\"broken\r\n{three}");
    let told = stage::batch(&fleet, &batch).await;
    let seen: Vec<(u64, u64)> = told
        .iter()
        .map(|line| (line["line"].as_u64().unwrap(), line["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(seen, [(1, 202), (3, 202), (5, 400), (6, 202)]);
    assert_eq!(told[2]["problem"]["line"], 5);
    let worker = fleet.worker();
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// A file without a record is no batch, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_line_is_refused() {
    let _shared = beside_others().await;
    let fleet: Fleet = stage::fleet(Setup::default()).await;
    for text in ["\n", "\u{feff}", " \r\n"] {
        let answer = fleet.call("POST", "/v1/queues/q/batch", text.as_bytes()).await;
        let told = (answer.status, stage::problem_of(&answer));
        assert_eq!(told, (400, "invalid-batch".to_owned()), "{text:?}");
    }
}
