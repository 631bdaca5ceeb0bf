//! Files of OpenAI batch lines.

use std::collections::BTreeMap;
use std::path::Path;

use holdfast_testkit::stand_in::{Options, Rule};
use holdfast_testkit::{Process, RedisServer, StandIn};
use serde_json::Value;

use super::{LIMIT, api, arg, file, line, producer};
use crate::fleet::{Fleet, SOON, Setup};

/// The lines of an output file, by their custom id.
fn output(path: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(path).expect("an output file");
    let read = |line: &str| -> (String, Value) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        (line["custom_id"].as_str().unwrap_or("none").to_owned(), line)
    };
    text.lines().map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_file_again_finds_what_is_there_and_sends_nothing_twice() {
    let fleet = Fleet::start().await;
    let lines: Vec<String> = (0..30).map(|n| line(&format!("c{n}"), &format!("n{n}"))).collect();
    let (folder, path) = file(lines.join("\n"));
    let out = folder.path().join("out.jsonl");
    let first =
        api(&fleet, &["submit", "--file", arg(&path), "--output", "json"]).await.exited(0).json();
    assert_eq!((&first["accepted"], &first["resumed"]), (&30.into(), &0.into()));
    assert_eq!(fleet.count("ticket").await, 30);

    let again =
        api(&fleet, &["submit", "--file", arg(&path), "--timeout", "5m", "--output", "json"]).await;
    let again = again.exited(0).json();
    assert_eq!((&again["accepted"], &again["resumed"]), (&0.into(), &30.into()));
    assert_eq!(again["kept_other_options"], 30, "another time out is told, and changes nothing");

    let _worker = fleet.worker();
    let arguments =
        ["submit", "--file", arg(&path), "--wait", "--out", arg(&out), "--output", "json"];
    let last = api(&fleet, &arguments).await.exited(0).json();
    assert_eq!((&last["accepted"], &last["answered"]), (&0.into(), &30.into()));
    assert_eq!(fleet.gateway.counts().arrived, 30, "each once");
    let written = output(&out);
    assert_eq!(written.len(), 30);
    let name = first["file"].as_str().expect("a name");
    assert_eq!(written["c7"]["id"], format!("{name}.8"), "the line's number");
    assert!(
        written
            .values()
            .all(|line| line["response"]["status_code"] == 200 && line["error"].is_null())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_is_refused_with_its_number_and_the_others_go_on() {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    let other = |text: &str, from: &str, to: &str| line(text, "x").replace(from, to);
    let text = [
        format!("\u{feff}{}\r", line("one", "a\u{2028}b\u{85}c\u{2029}d")),
        "\r".to_owned(),
        line("two", "b"),
        "   \r".to_owned(),
        "{\"custom_id\":\"S3CRET".to_owned(),
        line("one", "c"),
        other("get", "POST", "GET"),
        other("elsewhere", "/v1/chat/completions", "/v1/embeddings"),
        line("", "d"),
        other("deep", "\"x\"", &format!("{}{}", "[".repeat(200), "]".repeat(200))),
        line("last", "e"),
    ];
    let (folder, path) = file(text.join("\n"));
    let out = folder.path().join("out.jsonl");
    let ran = api(&fleet, &["submit", "--file", arg(&path), "--wait", "--out", arg(&out)])
        .await
        .exited(1);
    for told in [
        "line 5: no JSON at column",
        "line 6: has the custom_id of line 1",
        "line 7: method must be",
        "line 8: url must be \"/v1/chat/completions\"",
        "line 9: custom_id must be",
        "(too-deep)",
        "9 requests ",
        "3 accepted, 0 there before, 6 refused; 3 answered, 0 failed",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("S3CRET"));
    assert_eq!(fleet.gateway.counts().arrived, 3);
    let lines = std::fs::read_to_string(&out).expect("an output file");
    assert_eq!(lines.lines().count(), 9, "a line for each that is not blank");
    let written = output(&out);
    assert_eq!(written["get"]["error"]["code"], "invalid-line");
    assert_eq!(written["elsewhere"]["error"]["code"], "url-mismatch");
    assert_eq!(
        written["deep"]["error"]["code"], "too-deep",
        "what the API refuses is named as there"
    );
    assert_eq!(written["last"]["response"]["status_code"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_custom_id_is_taken_and_a_longer_one_told_as_what_it_is() {
    let fleet = Fleet::start().await;
    let [longest, longer] = [16368, 16369].map(|length| line(&"i".repeat(length), "x"));
    let (_folder, path) = file(format!("{longest}\n{longer}"));
    let ran = api(&fleet, &["submit", "--file", arg(&path)]).await.exited(1);
    assert!(ran.stderr.contains("line 2: custom_id must be at most 16370 bytes"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 accepted, 0 there before, 1 refused"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_without_an_answer_and_a_status_of_failure_are_told_apart() {
    let fleet = Fleet::start().await;
    let (folder, path) =
        file([line("dead", "cancel me"), line("bad", "bad"), line("good", "good")].join("\n"));
    let out = folder.path().join("out.jsonl");
    let name =
        api(&fleet, &["submit", "--file", arg(&path), "--output", "json"]).await.exited(0).json();
    let id = format!("{}.1", name["file"].as_str().expect("a name"));
    api(&fleet, &["cancel", &id]).await.exited(0);
    fleet
        .gateway
        .script(vec![Rule::on_body("bad").status(422).body("<html>no</html>")])
        .expect("a rule");
    let _worker = fleet.worker();
    let ran = api(&fleet, &["submit", "--file", arg(&path), "--wait", "--out", arg(&out)])
        .await
        .exited(1);
    assert!(ran.stderr.contains("1 answered, 2 failed"), "{}", ran.stderr);
    let written = output(&out);
    assert_eq!(written["dead"]["error"]["code"], "cancelled");
    assert!(written["dead"]["response"].is_null());
    let bad = &written["bad"]["response"];
    assert_eq!((&bad["status_code"], &bad["body"]), (&422.into(), &"<html>no</html>".into()));
    assert_eq!(bad["body_encoding"], "text");
    assert!(written["bad"]["error"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_id_is_kept_with_its_request_and_comes_back_as_it_was_written() {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    let (folder, path) = file(line("\\u00e9\\/\u{2028}", "x"));
    let out = folder.path().join("out.jsonl");
    api(&fleet, &["submit", "--file", arg(&path), "--wait", "--out", arg(&out)]).await.exited(0);
    let text = std::fs::read_to_string(&out).expect("an output file");
    assert!(text.contains("\"custom_id\":\"\\u00e9\\/\u{2028}\","), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_waited_for() {
    let setup = Setup { queue: "capacity = 4".to_owned(), ..Setup::default() };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let lines: Vec<String> = (0..8).map(|n| line(&format!("c{n}"), &format!("n{n}"))).collect();
    let (_folder, path) = file(lines.join("\n"));
    let server = fleet.api("");
    let arguments = ["submit", "--file", arg(&path), "--wait", "--queue", "q", "--server", &server];
    let mut waiting = Process::start(env!("CARGO_BIN_EXE_it-holdfastctl"), &arguments, &[]);
    waiting
        .wait_for_line(
            |line| line.contains("queue-full (429)") && line.contains("trying again"),
            SOON,
        )
        .await;
    fleet.wait_for_count("pending", 4, SOON).await;
    let _worker = fleet.worker();
    assert!(waiting.wait(LIMIT).await.success(), "{}", waiting.output());
    assert!(
        waiting.output().contains("8 accepted, 0 there before, 0 refused; 8 answered"),
        "{}",
        waiting.output()
    );
    assert_eq!(waiting.output().matches("trying again").count(), 1, "told once, however many wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_not_declared_ends_the_run_and_not_each_line() {
    let fleet = Fleet::start().await;
    let lines: Vec<String> = (0..200).map(|n| line(&format!("c{n}"), "x")).collect();
    let (_folder, path) = file(lines.join("\n"));
    let ran = super::ctl(&[
        "submit",
        "--file",
        arg(&path),
        "--queue",
        "other",
        "--server",
        &fleet.api(""),
    ])
    .await;
    let ran = ran.exited(1);
    assert!(
        ran.stderr.contains("unknown-queue (404)") && ran.stderr.contains("stopped early"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.lines().count() < 5, "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_loses_its_api_stops_and_the_same_command_goes_on() {
    let fleet = Fleet::without_producer(Setup::default(), RedisServer::start().await).await;
    let mut first = producer(&fleet).await;
    fleet.gateway.hold(true);
    let _worker = fleet.worker();
    let lines: Vec<String> = (0..20).map(|n| line(&format!("c{n}"), &format!("n{n}"))).collect();
    let (folder, path) = file(lines.join("\n"));
    let out = folder.path().join("out.jsonl");
    let server = fleet.api("");
    let arguments = [
        "submit",
        "--file",
        arg(&path),
        "--wait",
        "--out",
        arg(&out),
        "--queue",
        "q",
        "--server",
        &server,
        "--patience",
        "200ms",
    ];
    let program = env!("CARGO_BIN_EXE_it-holdfastctl");
    let mut cut = Process::start(program, &arguments, &[]);
    fleet.gateway.wait_for_arrivals(20, SOON).await.expect("all submitted");
    first.process.kill();
    assert_eq!(cut.wait(LIMIT).await.code(), Some(1), "{}", cut.output());
    assert!(cut.output().contains("the same command goes on"), "{}", cut.output());

    fleet.start_producer().await;
    fleet.gateway.hold(false);
    let mut whole = Process::start(program, &arguments, &[]);
    assert!(whole.wait(LIMIT).await.success(), "{}", whole.output());
    assert!(whole.output().contains("0 accepted, 20 there before"), "{}", whole.output());
    assert_eq!(output(&out).len(), 20);
    assert_eq!(fleet.gateway.counts().arrived, 20, "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_requests_and_what_is_no_file_are_refused() {
    let fleet = Fleet::start().await;
    for text in ["", "\n", "\u{feff}\r\n  \n"] {
        let (_folder, path) = file(text);
        let ran = api(&fleet, &["submit", "--file", arg(&path)]).await.exited(1);
        assert!(ran.stderr.contains("holds no requests"), "{}", ran.stderr);
    }
    let (folder, path) = file("");
    let ran = api(&fleet, &["submit", "--file", arg(folder.path())]).await.exited(1);
    assert!(ran.stderr.contains("must be a file"), "{}", ran.stderr);
    let missing = api(&fleet, &["submit", "--file", &format!("{}x", arg(&path))]).await.exited(1);
    assert!(missing.stderr.contains("no such file"), "{}", missing.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_the_input_is_refused_and_the_file_stays_as_it_is() {
    let fleet = Fleet::start().await;
    let text = line("one", "x");
    let (folder, path) = file(&text);
    let [soft, hard] = ["soft", "hard"].map(|name| folder.path().join(name));
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    std::fs::hard_link(&path, &hard).unwrap();
    for out in [&path, &soft, &hard] {
        let arguments = ["submit", "--file", arg(&path), "--wait", "--out", arg(out)];
        let ran = api(&fleet, &arguments).await.exited(2);
        assert!(ran.stderr.contains("is the very file of --file"), "{}", ran.stderr);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    assert_eq!(fleet.count("ticket").await, 0, "nothing was submitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_run_wrote_stays_until_there_is_something_to_write() {
    let fleet = Fleet::start().await;
    let (folder, path) = file(line("one", "x"));
    let out = folder.path().join("out.jsonl");
    let earlier = "what an earlier run wrote\n".repeat(1000);
    std::fs::write(&out, &earlier).unwrap();
    let arguments = ["submit", "--file", arg(&path), "--wait", "--out", arg(&out)];
    let nobody = ["--server", "http://127.0.0.1:1", "--patience", "1ms"];
    super::ctl(&[&arguments[..], &nobody].concat()).await.exited(1);
    let other = ["--queue", "other", "--server", &fleet.api("")];
    super::ctl(&[&arguments[..], &other].concat()).await.exited(1);
    assert!(std::fs::read_to_string(&out).unwrap() == earlier, "it is no longer what it was");

    let _worker = fleet.worker();
    api(&fleet, &arguments).await.exited(0);
    assert_eq!(output(&out).len(), 1, "and then nothing of it is left");
    let nowhere = folder.path().join("none/out.jsonl");
    let ran = api(&fleet, &[&arguments[..5], &[arg(&nowhere)]].concat()).await.exited(1);
    assert!(ran.stderr.contains("none/out.jsonl: no such folder"), "{}", ran.stderr);
    // What is no file has nothing to be emptied.
    api(&fleet, &[&arguments[..5], &["/dev/null"]].concat()).await.exited(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_something_else_is_no_answer_to_a_line() {
    let (folder, path) = file([line("one", "x"), line("two", "y")].join("\n"));
    let out = folder.path().join("out.jsonl");
    std::fs::write(&out, "an earlier run\n").unwrap();
    for status in [200, 202, 302, 400, 404, 422] {
        let other = StandIn::start(Options::default()).await.expect("a server");
        let page = Rule::new().status(status).body("<html>who are you?</html>");
        other.script(vec![page]).expect("a rule");
        let url = other.url();
        let arguments = ["submit", "--file", arg(&path), "--wait", "--out", arg(&out)];
        let ran = super::ctl(&[&arguments[..], &["--server", &url]].concat()).await.exited(1);
        assert!(ran.stderr.contains("not-holdfast"), "{status}: {}", ran.stderr);
        assert!(ran.stderr.contains("stopped early"), "{status}: {}", ran.stderr);
        assert!(ran.stderr.contains("0 accepted, 0 there before, 0 refused"), "{}", ran.stderr);
        assert!(other.counts().arrived <= 2, "{status}: nobody is asked again and again");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "an earlier run\n");
    }
}

/// An API as a line of a file sees it, with a page of a proxy for a moment in the midst of the wait.
async fn with_a_page(times: Option<u64>) -> StandIn {
    let api = StandIn::start(Options::default()).await.expect("a server");
    let told = "{\"index\":0,\"status\":202,\"generation\":\"00000000000000ab\"}\n";
    let taken = Rule::on_body("custom_id").status(207).body(told);
    let page = Rule { times, ..Rule::new().status(302).body("<html>who are you?</html>") };
    let end = Rule::new()
        .status(200)
        .header("Holdfast-Outcome", "answered")
        .header("Holdfast-Status", "200")
        .body("{\"fine\":1}");
    api.script(vec![taken, page, end]).expect("rules");
    api
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_the_midst_of_a_wait_is_asked_past_for_as_long_as_patience_lasts() {
    let (folder, path) = file(line("one", "x"));
    let out = folder.path().join("out.jsonl");
    std::fs::write(&out, "an earlier run\n").unwrap();
    let arguments = ["submit", "--file", arg(&path), "--wait", "--out", arg(&out)];
    let stubborn = with_a_page(None).await;
    let place = ["--server", &stubborn.url(), "--patience", "1ms"];
    let ran = super::ctl(&[&arguments[..], &place].concat()).await.exited(1);
    assert!(ran.stderr.contains("not-holdfast (302)"), "{}", ran.stderr);
    assert!(ran.stderr.contains("stopped early"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "an earlier run\n");

    let passing = with_a_page(Some(2)).await;
    let place = ["--server", &passing.url()];
    super::ctl(&[&arguments[..], &place].concat()).await.exited(0);
    assert_eq!(output(&out)["one"]["response"]["body"]["fine"], 1);
}
