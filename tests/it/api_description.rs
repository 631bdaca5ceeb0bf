//! What the API and the operators' listener say of themselves at `/openapi.json`, held against what it does: a stranger makes calls out of it, right and wrong
//! ones, and looks at every answer.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_testkit::{Process, RedisServer};

use crate::fleet::{Fleet, Setup};

/// For some 100 MB.
const INSTALL_LIMIT: Duration = Duration::from_secs(300);
/// The calls stop by themselves long before.
const RUN_LIMIT: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn both_listeners_do_what_their_openapi_says() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("schemathesis");
    let arguments = [here("schemathesis.sh"), folder.clone(), "install".into()];
    let mut installing = Process::start("sh", &arguments, &[]);
    if !installing.wait(INSTALL_LIMIT).await.success() {
        return skip(&installing.output());
    }
    let setup = Setup {
        producer: "wait_max = \"1s\"".to_owned(),
        queue: "capacity = 1000000".to_owned(),
        ..Setup::patient()
    };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let _worker = fleet.worker();
    does_what_it_says(&folder, &fleet.api("")).await;
    does_what_it_says(&folder, &fleet.operators().await).await;
}

/// One listener after the other: the folder is for one.
async fn does_what_it_says(folder: &Path, listener: &str) {
    let url = PathBuf::from(format!("{listener}/openapi.json"));
    let arguments = [here("schemathesis.sh"), folder.to_owned(), url, here("schemathesis.toml")];
    let mut run = Process::start("sh", &arguments, &[]);
    let status = run.wait(RUN_LIMIT).await;
    assert!(status.success(), "{listener}: {}", run.output());
}

fn here(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "it", "api_description", name].iter().collect()
}

/// Says that nothing was tested, past the capture that hides what a passing test prints.
fn skip(output: &str) {
    let why = format!(
        "schemathesis can't be installed (python3 with venv, and a PyPI to ask):\n{output}"
    );
    assert!(
        env::var_os("CI").is_none_or(|ci| ci.is_empty()),
        "in CI there is no way around it: {why}"
    );
    let line = "=".repeat(80);
    let told = format!("\n{line}\nSKIPPED, NOT TESTED: {why}{line}\n");
    std::io::stderr().write_all(told.as_bytes()).expect("standard error");
}
