//! One request: submit, get, result, cancel.

use holdfast_testkit::stand_in::{Options, Rule};
use holdfast_testkit::{RedisServer, StandIn, eventually};

use super::{LIMIT, api, arg, command, ctl, ended, file, producer};
use crate::fleet::{Fleet, SOON, Setup};

/// What a reader that writes again would change: spaces, number forms, empty lists, a name twice, half a surrogate pair.
const BODY: &str = "{ \"seed\" : 9007199254740993, \"t\":1.0,\"z\":-0.0,\"stop\":[], \"s\":\"\\u00e9\\/\u{2028}\\ud83d\", \"t\":1e400 }";

#[tokio::test(flavor = "multi_thread")]
async fn a_body_goes_out_and_its_answer_comes_back_byte_for_byte() {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    let answer = "{\"n\": 1.0,\n \"e\": []}\u{2029}\r\n";
    fleet.gateway.script(vec![Rule::new().body(answer)]).expect("a rule");
    let (_folder, path) = file(format!("\u{feff}{BODY}\r\n"));

    let ran = api(&fleet, &["submit", arg(&path), "--wait", "--timeout", "5m"]).await.exited(0);
    assert_eq!(fleet.gateway.bodies(), [BODY], "what surrounds the value is no part of it");
    assert_eq!(ran.stdout, answer.as_bytes());
    assert!(ran.stderr.contains("answered, status 200, attempts 1"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_read_from_standard_input_too() {
    let fleet = Fleet::start().await;
    let server = fleet.api("");
    let mut command = command(&[
        "submit", "-", "--id", "piped", "--queue", "q", "--output", "json", "--server", &server,
    ]);
    let (_folder, path) = file(BODY);
    command.stdin(std::fs::File::open(path).expect("a file"));
    let status = ended(command).await.exited(0).json();
    assert_eq!((&status["id"], &status["state"]), (&"piped".into(), &"pending".into()));
    let _worker = fleet.worker();
    fleet.result("piped").await;
    assert_eq!(fleet.gateway.bodies(), [BODY]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_is_not_sent() {
    let fleet = Fleet::start().await;
    for text in ["", "S3CRET", "1,\"id\":\"x\"", "{}{}"] {
        let (_folder, path) = file(text);
        let ran = api(&fleet, &["submit", arg(&path)]).await.exited(1);
        assert!(
            ran.stderr.contains("lines.jsonl: ") && !ran.stderr.contains("S3CRET"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(fleet.count("ticket").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_shown_awaited_and_cancelled_by_its_id() {
    let fleet = Fleet::start().await;
    for id in ["a+b:c", "other"] {
        fleet.submit(id, "{\"content\":\"x\"}").await;
    }
    let shown = api(&fleet, &["get", "a+b:c"]).await.exited(0);
    assert!(shown.text().starts_with("id") && shown.text().contains("a+b:c"), "{}", shown.text());
    assert!(shown.text().lines().any(|line| line.split_whitespace().eq(["state", "pending"])));
    let status = api(&fleet, &["get", "a+b:c", "--output", "json"]).await.exited(0).json();
    assert_eq!(status["state"], "pending");

    let early = api(&fleet, &["result", "a+b:c"]).await.exited(1);
    assert!(
        early.stderr.contains("not ended yet: pending") && early.stdout.is_empty(),
        "{}",
        early.stderr
    );

    let cancelled = api(&fleet, &["cancel", "a+b:c", "--output", "json"]).await.exited(0).json();
    assert_eq!(cancelled["outcome"], "cancelled");
    let ended = api(&fleet, &["result", "a+b:c", "--output", "json"]).await.exited(1);
    assert_eq!(
        (&ended.json()["error"]["code"], &ended.json()["response"]),
        (&"cancelled".into(), &serde_json::Value::Null)
    );

    let _worker = fleet.worker();
    let waited = api(&fleet, &["result", "other", "--wait", "30"]).await.exited(0);
    assert!(waited.json()["choices"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_is_gone_is_not_mistaken_for_another() {
    let fleet = Fleet::start().await;
    fleet.submit("a", "{}").await;
    let gone = api(&fleet, &["get", "a", "--generation", "00000000000000ff"]).await.exited(1);
    assert!(gone.stderr.contains("unknown-request (404)"), "{}", gone.stderr);
    let generation =
        fleet.status("a").await["generation"].as_str().expect("a generation").to_owned();
    api(&fleet, &["get", "a", "--generation", &generation]).await.exited(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_2xx_fails_and_is_printed_all_the_same() {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    fleet.gateway.script(vec![Rule::new().status(400).body("no such model")]).expect("a rule");
    fleet.submit("a", "{}").await;
    let ran = api(&fleet, &["result", "a", "--wait", "30"]).await.exited(1);
    assert_eq!(ran.text(), "no such model");
    assert!(ran.stderr.contains("answered, status 400"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_any_form_asks_for_that_id_and_for_nothing_else() {
    let fleet = Fleet::start().await;
    fleet.submit("x", "{}").await;
    for id in ["x/result", "x?wait=1", "x#y", "../x", "..", "x%00", "é", "x\u{1b}[2J", ""] {
        let ran = api(&fleet, &["get", id]).await;
        assert_eq!(ran.code, Some(1), "{id}: {}", ran.text());
        assert!(ran.stderr.contains(" (40"), "{id}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_outlasts_an_api_that_is_away() {
    let fleet = Fleet::without_producer(Setup::default(), RedisServer::start().await).await;
    let (_folder, path) = file("{}");
    let server = fleet.api("");
    let arguments = [
        "submit",
        arg(&path),
        "--id",
        "late",
        "--queue",
        "q",
        "--server",
        &server,
        "--patience",
        "1m",
    ];
    let program = env!("CARGO_BIN_EXE_it-holdfastctl");
    let mut waiting = holdfast_testkit::Process::start(program, &arguments, &[]);
    waiting
        .wait_for_line(|line| line.contains("can't connect") && line.contains("trying again"), SOON)
        .await;
    fleet.start_producer().await;
    assert!(waiting.wait(LIMIT).await.success(), "{}", waiting.output());
    assert_eq!(fleet.status("late").await["state"], "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_not_there_is_told_at_once_to_who_only_asks() {
    let url = format!("http://127.0.0.1:{}", holdfast_testkit::free_port());
    for arguments in [["get", "x"], ["result", "x"], ["cancel", "x"]] {
        let ran = ctl(&[&arguments[..], &["--server", &url]].concat()).await.exited(1);
        assert!(
            ran.stderr.contains("can't connect to") && ran.stderr.contains("refused"),
            "{}",
            ran.stderr
        );
    }
    let (_folder, path) = file("{}");
    let ran = ctl(&["submit", arg(&path), "--server", &url, "--patience", "0s"]).await.exited(1);
    assert!(ran.stderr.contains("can't connect"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_what_runs_is_told_as_cancelling_until_its_worker_stopped() {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    fleet.gateway.hold(true);
    fleet.submit("a", "{}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("it runs");
    let asked = api(&fleet, &["cancel", "a", "--output", "json"]).await.exited(0).json();
    assert!(asked["state"] == "cancelling" || asked["outcome"] == "cancelled", "{asked}");
    eventually("it is cancelled", SOON, async || match api(&fleet, &["result", "a"]).await {
        ran if ran.stderr.contains("cancelled") => Ok(()),
        ran => Err(ran.stderr),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_requests_are_listed_page_by_page() {
    let fleet = Fleet::start().await;
    for number in 0..7 {
        fleet.submit(&format!("l-{number}"), "1").await;
    }
    api(&fleet, &["cancel", "l-3"]).await.exited(0);
    let table = api(&fleet, &["ls", "--state", "pending", "--limit", "4"]).await.exited(0);
    assert_eq!(table.text().lines().count(), 5, "a heading and four rows: {}", table.text());
    let cursor = table.stderr.split("--cursor ").nth(1).expect("more").trim().to_owned();
    let arguments = ["ls", "--state", "pending", "--cursor", &cursor, "--output", "json"];
    let rest = api(&fleet, &arguments).await.exited(0).json();
    assert_eq!(rest["requests"].as_array().expect("rows").len(), 2);
    assert!(rest["cursor"].is_null());
    let all = api(&fleet, &["ls"]).await.exited(0);
    assert_eq!(all.text().lines().count(), 8, "{}", all.text());
    assert!(all.text().contains("cancelled") && all.stderr.is_empty(), "{all:?}");
    let wrong = api(&fleet, &["ls", "--state", "sleeping"]).await.exited(1);
    assert!(wrong.stderr.contains("invalid-query (400)"), "{}", wrong.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_learn_whether_a_body_was_taken_is_told_its_id() {
    let (_folder, path) = file("{}");
    let submit = async |server: &StandIn| {
        let url = server.url();
        ctl(&["submit", arg(&path), "--server", &url, "--patience", "0s"]).await.exited(1)
    };
    let unknown = r#"{"type":"/problems/outcome-unknown","detail":"d"}"#;
    for rule in [Rule::new().cut_after(0), Rule::new().status(503).body(unknown)] {
        let server = StandIn::start(Options::default()).await.expect("a server");
        server.script(vec![rule]).expect("a rule");
        let ran = submit(&server).await;
        let item: serde_json::Value = serde_json::from_slice(&server.bodies()[0]).expect("an item");
        let repeat = format!("--id {}", item["id"].as_str().expect("an id"));
        assert!(ran.stderr.contains("may have been taken"), "{}", ran.stderr);
        assert!(ran.stderr.contains(&repeat), "{}", ran.stderr);
    }
    // It is told while there is patience left, too: somebody may end the tries.
    let server = StandIn::start(Options::default()).await.expect("a server");
    server.script(vec![Rule::new().cut_after(0)]).expect("a rule");
    let url = server.url();
    let arguments = ["submit", arg(&path), "--server", &url, "--patience", "10m"];
    let program = env!("CARGO_BIN_EXE_it-holdfastctl");
    let mut trying = holdfast_testkit::Process::start(program, &arguments, &[]);
    trying.wait_for_line(|line| line.contains("may have been taken"), SOON).await;
    assert!(trying.is_running());
    // Who was told that it was not taken, or not heard, has nothing to repeat.
    let full = r#"{"type":"/problems/queue-full","detail":"d"}"#;
    let server = StandIn::start(Options::default()).await.expect("a server");
    server.script(vec![Rule::new().status(429).body(full)]).expect("a rule");
    let refused = submit(&server).await;
    assert!(!refused.stderr.contains("--id"), "{}", refused.stderr);
    let nobody = format!("http://127.0.0.1:{}", holdfast_testkit::free_port());
    let away = ctl(&["submit", arg(&path), "--server", &nobody, "--patience", "0s"]).await;
    assert!(!away.exited(1).stderr.contains("--id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_result_outlasts_an_api_that_is_away() {
    let fleet = Fleet::without_producer(Setup::default(), RedisServer::start().await).await;
    let mut first = producer(&fleet).await;
    fleet.submit("a", "{}").await;
    first.process.kill();
    let server = fleet.api("");
    let place = ["--queue", "q", "--server", &server];
    let arguments = [&["result", "a", "--wait", "120"][..], &place].concat();
    let program = env!("CARGO_BIN_EXE_it-holdfastctl");
    let mut waiting = holdfast_testkit::Process::start(program, &arguments, &[]);
    waiting
        .wait_for_line(|line| line.contains("can't connect") && line.contains("trying again"), SOON)
        .await;
    // It ends with its wait, however long nobody is there.
    let short = ctl(&[&["result", "a", "--wait", "1"][..], &place].concat()).await.exited(1);
    assert!(short.stderr.contains("can't connect"), "{}", short.stderr);
    let _worker = fleet.worker();
    fleet.start_producer().await;
    assert!(waiting.wait(LIMIT).await.success(), "{}", waiting.output());
}
