//! apalis over Redis: jobs in a hash and a list, fetched and told done in batches. Built by cargo, outside the workspace.

use tokio::process::Command;

use super::peers::{self, Peer, Program};
use crate::Effort;
use crate::report::Row;

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let peer = Peer {
        name: "apalis-redis",
        // With more than 8,000 that wait, its script unpacks more than Lua can, and fails.
        batches: 79,
        rounds: if effort == Effort::Quick { 3 } else { 9 },
        has_targets: false,
        how: "push_bulk of 64, batches of 64, no locks of single jobs, no events, one vacuum at the end",
    };
    let compared = peer.compared(built().await).await;
    vec![compared.process, compared.add, compared.add_at_once, compared.cpu]
}

/// Builds it, unless it is built.
async fn built() -> Result<Program, String> {
    let target = peers::folder("apalis");
    eprintln!("apalis: cargo build");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
    cargo.arg(peers::sources("apalis").join("Cargo.toml")).arg("--target-dir").arg(&target);
    peers::output(&mut cargo).await?;
    Ok(Program { path: target.join("release/peer-apalis"), first: Vec::new() })
}
