//! Redis goes away, stands still, is full or busy; what it says does not arrive.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_testkit::proxy::{Fault, When};
use holdfast_testkit::{Client, eventually};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Kind;
use crate::census;
use crate::dice::Dice;
use crate::stage::Stage;

/// How long Redis may take to be back.
const BACK: Duration = Duration::from_secs(30);

pub(super) async fn happen(kind: Kind, stage: &Stage, dice: &mut Dice) -> u64 {
    let (troubled, full) = (stage.ledger.troubled(), stage.ledger.full());
    match kind {
        Kind::RedisKilled => return killed(stage, dice).await,
        Kind::RedisPaused => {
            let pause = dice.of(&["1300", "2500"]);
            stage.redis.command(&["CLIENT", "PAUSE", pause, "ALL"]).await;
            let over = async || stage.redis.try_command(&["PING"]).await;
            eventually("redis goes on", BACK, over).await;
        }
        Kind::RedisFull => {
            stage.redis.command(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
            sleep(Duration::from_millis(1_500)).await;
            stage.redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
            return stage.ledger.full() - full;
        }
        Kind::RedisBusy => busy(stage).await,
        Kind::RepliesLost => return lost(stage, dice).await,
        _ => {
            let line = &stage.lines[dice.below(stage.lines.len())];
            line.black_hole();
            sleep(Duration::from_millis(dice.of(&[1_500, 3_000]))).await;
            line.restore();
            // The producers' line too, so that a client can tell.
            let line = &stage.lines[0];
            line.black_hole();
            sleep(Duration::from_millis(1_300)).await;
            line.restore();
        }
    }
    // What hung until now is told now.
    sleep(Duration::from_millis(300)).await;
    stage.ledger.troubled() - troubled
}

/// Killed, and back on its AOF. What it has forgotten is read before any role can write again.
///
/// With `everysec` its machine falls too: what came to the file in the last moments was not on the disk yet. Gives how many calls
/// of clients were under way.
async fn killed(stage: &Stage, dice: &mut Dice) -> u64 {
    let on_disk = LogFile::newest(stage.redis.dir());
    if stage.forgets {
        sleep(Duration::from_millis(dice.of(&[50, 300, 900]))).await;
    }
    let under_way = stage.ledger.under_way();
    stage.redis.kill().await;
    if let Some(file) = on_disk.filter(|_| stage.forgets) {
        file.cut();
    }
    for line in &stage.lines {
        line.go_down();
    }
    sleep(Duration::from_millis(dice.of(&[0, 400, 1_500]))).await;
    stage.redis.restart().await;
    // A client may still be told what Redis had acknowledged before it was killed.
    sleep(Duration::from_millis(50)).await;
    let (kept, ended) = stage.ledger.acknowledged();
    let mut forgotten = census::forgotten(&stage.redis, &kept, &ended).await;
    if stage.forgets {
        forgotten.looks.push(stage.ledger.now());
    }
    stage.ledger.forget(forgotten);
    for line in &stage.lines {
        line.restore();
    }
    under_way
}

/// The append-only file as it was at a moment.
struct LogFile {
    path: PathBuf,
    bytes: u64,
}

impl LogFile {
    /// The one that Redis writes to.
    fn newest(folder: &Path) -> Option<Self> {
        let files = fs::read_dir(folder.join("appendonlydir")).ok()?;
        let increments = files.filter_map(Result::ok).filter_map(|file| {
            let path = file.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".incr.aof")?;
            let number: u64 = name.rsplit_once('.')?.1.parse().ok()?;
            Some((number, Self { bytes: file.metadata().ok()?.len(), path }))
        });
        increments.max_by_key(|(number, _)| *number).map(|(_, file)| file)
    }

    /// What came since is gone. A file that was replaced meanwhile stays as it is.
    fn cut(&self) {
        if let Ok(file) = fs::OpenOptions::new().write(true).open(&self.path) {
            file.set_len(self.bytes).expect("a file that can be cut");
        }
    }
}

/// A script of somebody else that does not end, until somebody kills it.
async fn busy(stage: &Stage) {
    let (somebody, operator) = (Client::new(stage.redis.port()), Client::new(stage.redis.port()));
    let mut script = JoinSet::new();
    script.spawn(
        async move { somebody.try_command(&["EVAL", "while true do end", "0"]).await.is_ok() },
    );
    sleep(Duration::from_millis(1_500)).await;
    eventually("the script is killed", BACK, async || {
        let killed = operator.try_command(&["SCRIPT", "KILL"]).await;
        if script.try_join_next().is_some() { Ok(()) } else { Err(format!("{killed:?}")) }
    })
    .await;
}

/// Some replies of each role's scripts are lost, with the connections that carry them.
async fn lost(stage: &Stage, dice: &mut Dice) -> u64 {
    let rounds = 2 + dice.below(4);
    let is_script =
        |words: &[Vec<u8>]| words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"EVALSHA"));
    let injected: Vec<_> = stage
        .lines
        .iter()
        .map(|line| line.inject(Fault::LoseReply, When::First(rounds), is_script))
        .collect();
    sleep(Duration::from_millis(1_200)).await;
    stage.lines.iter().for_each(holdfast_testkit::Proxy::clear);
    injected.iter().map(|it| it.fired() as u64).sum()
}
