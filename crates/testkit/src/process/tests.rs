use super::*;

const LIMIT: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Process {
    Process::start("/bin/sh", &["-c", script], &[("GREETING", "hello")])
}

#[tokio::test]
async fn lines_are_awaited_and_kept() {
    let mut process = shell("echo one; echo $GREETING >&2; read wait; exec sleep 60");
    // Standard input is closed, so `read` returns at once.
    assert_eq!(process.wait_for_line(|line| line.starts_with("hel"), LIMIT).await, "hello");
    assert_eq!(
        process.wait_for_line(|line| line == "one", LIMIT).await,
        "one",
        "a line that came before"
    );
    assert_eq!((process.stdout().as_str(), process.stderr().as_str()), ("one\n", "hello\n"));
    assert!(process.is_running());
    assert!(!process.kill().success());
    assert!(!process.is_running());
}

#[tokio::test]
#[should_panic(expected = "ended without the awaited line:\nsomething else")]
async fn a_line_that_can_no_longer_come_is_not_awaited() {
    shell("echo something else").wait_for_line(|line| line == "never", LIMIT).await;
}

#[tokio::test]
#[should_panic(expected = "no such line within 50ms:\nsomething else")]
async fn a_line_that_does_not_come_fails_the_test() {
    let process = shell("echo something else; exec sleep 60");
    process.wait_for_line(|line| line == "something else", LIMIT).await;
    process.wait_for_line(|line| line == "never", Duration::from_millis(50)).await;
}

#[tokio::test]
async fn a_terminated_process_can_finish_what_it_does() {
    let mut process =
        shell("trap 'echo drained; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    process.wait_for_line(|line| line == "ready", LIMIT).await;
    assert_eq!(process.terminate().await.code(), Some(3));
    assert_eq!(process.output(), "ready\ndrained\n");
}

#[tokio::test]
async fn a_frozen_process_does_nothing_until_it_is_woken() {
    let mut process = shell("echo ready; while :; do echo tick; sleep 0.01; done");
    process.wait_for_line(|line| line == "tick", LIMIT).await;
    process.freeze();
    // What was on its way has arrived when two looks in a row see the same.
    let mut before = process.output();
    crate::eventually("silence", LIMIT, async || {
        sleep(Duration::from_millis(100)).await;
        let now = process.output();
        let same = now == before;
        before = now;
        if same { Ok(()) } else { Err("it still speaks") }
    })
    .await;
    let lines = before.lines().count();
    process.wake();
    let mut seen = 0;
    let more = |_: &str| {
        seen += 1;
        seen > lines
    };
    process.wait_for_line(more, LIMIT).await;
}

#[tokio::test]
async fn a_run_gives_status_and_both_outputs() {
    let finished =
        Process::run("/bin/sh", &["-c", "printf 'no end'; echo oops >&2; exit 64"], &[]).await;
    assert_eq!(finished.status.code(), Some(64));
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("no end\n", "oops\n"));
}

#[tokio::test]
async fn settings_of_the_tests_own_environment_do_not_reach_a_process() {
    // Another process stands in for the test's: its environment can be chosen.
    let exe = env::current_exe().expect("this test");
    let args =
        ["--ignored", "--exact", "--nocapture", "process::tests::prints_the_settings_of_a_child"];
    let outer = tokio::process::Command::new(exe)
        .args(args)
        .env("HOLDFAST_MARKED", "leaked")
        .output()
        .await;
    let printed = String::from_utf8(outer.expect("a run").stdout).expect("text");
    assert!(printed.contains("settings: []"), "{printed}");
}

#[tokio::test]
#[ignore = "a part of the test above, which runs it"]
async fn prints_the_settings_of_a_child() {
    let child = Process::run("/bin/sh", &["-c", "env | grep ^HOLDFAST_ || true"], &[]).await;
    println!("settings: [{}]", child.stdout.trim());
}
