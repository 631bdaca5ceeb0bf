//! `holdfast demo`: the ledger is clean, and nothing stays behind.

use std::time::Duration;

use holdfast_testkit::Process;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_it-holdfast");

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_kills_and_freezes_workers_and_its_ledger_is_clean() {
    let ended = Process::run(HOLDFAST, &["demo", "--output", "json"], &[]).await;
    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    let ledger: serde_json::Value = serde_json::from_str(&ended.stdout).expect("nothing but JSON");
    let count =
        |name: &str| ledger[name].as_u64().unwrap_or_else(|| panic!("no {name} in {ledger}"));
    assert_eq!((count("accepted"), count("answered")), (300, 300));
    assert_eq!((count("lost"), count("answered_twice")), (0, 0));
    assert!(count("redelivered") > 0 && count("fenced") > 0, "{ledger}");
    let takeover = ledger["takeover_seconds"].as_f64().expect("a takeover");
    assert!(
        (0.5..=5.0).contains(&takeover),
        "within the lease of 3 s and 2 s, and not before it lapsed: {ledger}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_can_not_run_says_why() {
    let ended = Process::run(HOLDFAST, &["demo", "--redis-server", "no-such-server"], &[]).await;
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("no-such-server"), "{}", ended.stderr);
    let ended = Process::run(HOLDFAST, &["demo", "--lease", "soon"], &[]).await;
    assert_eq!(ended.status.code(), Some(64));
    assert!(ended.stderr.contains("worker.lease = soon"), "{}", ended.stderr);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_killed_leaves_no_process_behind() {
    use holdfast_testkit::eventually;

    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap().to_owned();
    let mut demo = Process::start(HOLDFAST, &["demo", "--data", &data], &[]);
    demo.wait_for_line(|line| line.starts_with("SIGSTOP"), Duration::from_secs(120)).await;
    // The frozen worker's is one of them.
    assert!(named(&data).len() >= 6, "a demo, a redis, a producer, two reclaimers, two workers");
    demo.kill();
    let gone = eventually("every process is gone", Duration::from_secs(10), async || {
        let left = named(&data);
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    });
    gone.await;
}

/// The command lines of all processes that name a text.
#[cfg(target_os = "linux")]
fn named(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines =
        processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}
