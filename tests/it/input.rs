//! Real input of many kinds, byte for byte from a file to the gateway, and back into a file.

#[path = "../input/generate.rs"]
mod generate;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cli::{api, arg};
use crate::fleet::Fleet;

/// Where the committed requests lie.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/input/requests.jsonl");

#[derive(Deserialize)]
struct Line<'a> {
    custom_id: String,
    #[serde(borrow)]
    response: Response<'a>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Response<'a> {
    status_code: u16,
    #[serde(borrow)]
    body: &'a RawValue,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_body_reaches_the_gateway_byte_for_byte() {
    let fleet = Fleet::start().await;
    let (_worker, _reclaimer) = (fleet.worker(), fleet.reclaimer());
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.jsonl");
    let arguments = ["submit", "--file", FILE, "--wait", "--out", arg(&out), "--output", "json"];
    let tally = api(&fleet, &arguments).await.exited(0).json();

    let sent = generate::bodies(&std::fs::read(FILE).expect("the requests"));
    assert!(sent.len() >= 200, "{}", sent.len());
    assert_eq!((&tally["accepted"], &tally["answered"]), (&sent.len().into(), &sent.len().into()));
    // Two lines may have the same body: each arrival stands for one.
    let mut expected: Vec<&[u8]> = sent.iter().map(|(_, body)| body.as_slice()).collect();
    let arrivals = fleet.gateway.arrivals();
    let mut arrived: Vec<&[u8]> = arrivals.iter().map(|arrival| arrival.body.as_ref()).collect();
    expected.sort_unstable();
    arrived.sort_unstable();
    assert_eq!(arrived.len(), expected.len());
    for (arrived, expected) in arrived.iter().zip(&expected) {
        assert!(
            arrived == expected,
            "{} differs from {}",
            arrived.escape_ascii(),
            expected.escape_ascii()
        );
    }

    // And the way back: each line holds the bytes that the gateway gave to an arrival of its body.
    let mut given: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for arrival in &arrivals {
        let end = arrival.end.as_ref().expect("an answer");
        given.entry(arrival.body.as_ref()).or_default().push(end.answer.trim_ascii());
    }
    let text = std::fs::read_to_string(&out).expect("an output file");
    let lines: Vec<Line<'_>> = text
        .split_terminator('\n')
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(lines.len(), sent.len());
    let sent: BTreeMap<String, Vec<u8>> = sent.into_iter().collect();
    for line in &lines {
        assert!(line.response.status_code == 200 && line.error.is_none(), "{}", line.custom_id);
        let answers = &given[sent[&line.custom_id].as_slice()];
        let body = line.response.body.get().as_bytes();
        assert!(answers.contains(&body), "{}: {}", line.custom_id, line.response.body);
    }
}
