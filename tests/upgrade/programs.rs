//! The programs of this version, and of one to come: the same with another field in each ticket and with other scripts.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_testkit::Process;

/// Only our own crates are built once more.
const BUILD_LIMIT: Duration = Duration::from_secs(1200);

/// One version.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) producer: PathBuf,
    pub(crate) worker: PathBuf,
    pub(crate) reclaimer: PathBuf,
}

impl Programs {
    /// This one.
    pub(crate) fn older() -> Self {
        Self {
            producer: env!("CARGO_BIN_EXE_it-producer").into(),
            worker: env!("CARGO_BIN_EXE_it-worker").into(),
            reclaimer: env!("CARGO_BIN_EXE_it-reclaimer").into(),
        }
    }

    /// The one to come, which is built beside this one if it is not there yet.
    pub(crate) async fn newer() -> Self {
        let folder = Path::new(env!("CARGO_BIN_EXE_it-producer")).parent().expect("a folder");
        let target = folder.parent().expect("a target folder");
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let words = ["build", "--quiet", "--locked", "--offline", "--features", "next-build"];
        let names = ["next-producer", "next-worker", "next-reclaimer"];
        let mut arguments: Vec<PathBuf> = words.map(PathBuf::from).to_vec();
        arguments.extend(["--manifest-path".into(), manifest]);
        arguments.extend(["--target-dir".into(), target.to_owned()]);
        arguments.extend(names.iter().flat_map(|name| ["--bin".into(), PathBuf::from(name)]));
        let mut build = Process::start(cargo, &arguments, &[]);
        let built = build.wait(BUILD_LIMIT).await;
        assert!(built.success(), "{}", build.output());
        let [producer, worker, reclaimer] = names.map(|name| folder.join(name));
        Self { producer, worker, reclaimer }
    }
}
