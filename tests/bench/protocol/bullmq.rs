//! BullMQ: jobs in hashes, lists of their ids, one script a job. Got by `npm ci`.

use std::path::Path;

use tokio::process::Command;

use super::peers::{self, Peer, Program};
use crate::Effort;
use crate::report::Row;

/// What its program consists of.
const FILES: [&str; 4] = [".npmrc", "package.json", "package-lock.json", "peer.cjs"];

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let peer = Peer {
        name: "BullMQ",
        batches: 313,
        rounds: if effort == Effort::Quick { 3 } else { 9 },
        has_targets: true,
        how: "addBulk of 64, one worker with 64 at once, an answer deleted when 64 later ones are there",
    };
    let compared = peer.compared(installed().await).await;
    vec![
        compared.process.at_least(8.0),
        compared.add.at_least(8.0),
        compared.add_at_once,
        compared.cpu.at_most(0.27),
    ]
}

/// Installs it, unless just that is installed.
async fn installed() -> Result<Program, String> {
    let (sources, folder) = (peers::sources("bullmq"), peers::folder("bullmq"));
    let program = Program { path: "node".into(), first: vec![folder.join("peer.cjs")] };
    let done = folder.join("installed");
    let read = |folder: &Path| FILES.map(|name| std::fs::read(folder.join(name)).ok());
    if done.exists() && read(&folder) == read(&sources) {
        return Ok(program);
    }
    let failed = |error: std::io::Error| format!("no folder to install into: {error}");
    std::fs::create_dir_all(&folder).map_err(failed)?;
    for name in FILES {
        std::fs::copy(sources.join(name), folder.join(name)).map_err(failed)?;
    }
    eprintln!("BullMQ: npm ci");
    let mut npm = Command::new("npm");
    // No script of a package is run: what one would build is not needed.
    peers::output(npm.args(["ci", "--ignore-scripts"]).current_dir(&folder)).await?;
    std::fs::write(done, "").map_err(failed)?;
    Ok(program)
}
