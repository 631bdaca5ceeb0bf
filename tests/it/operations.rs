//! `docs/operations.md` at its word: each command in it is run, on requests that are in the state it is about, and each
//! alert has its section.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Failure, FailureCode, Fence, QueueName, Session};
use holdfast_core::redis::Options;
use holdfast_core::script::{Burial, Claim, ClaimReply, Settle, SettleItem, SettleKind};
use holdfast_testkit::{Process, RedisServer};

use crate::fleet::{Fleet, Setup};

const PAGE: &str = include_str!("../../docs/operations.md");

/// Before each block: what it is run on, and what it may do.
const MARK: &str = "<!-- run";

/// A block of commands, and what its mark says.
struct Block {
    line: usize,
    marks: Vec<String>,
    script: String,
}

impl Block {
    fn is(&self, mark: &str) -> bool {
        self.marks.iter().any(|it| it == mark)
    }
}

/// Every block of commands of the page. One without a mark would be run by nobody.
fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut marks, mut open): (Option<Vec<String>>, Option<Block>) = (None, None);
    for (at, line) in PAGE.lines().enumerate() {
        match (&mut open, line) {
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(block), _) => block.script += &format!("{line}\n"),
            (None, "```sh") => {
                let marks = marks.take();
                let marks = marks.unwrap_or_else(|| panic!("line {}: no mark before it", at + 1));
                open = Some(Block { line: at + 1, marks, script: String::new() });
            }
            (None, _) if line.starts_with(MARK) => {
                let said = line[MARK.len()..].trim_start_matches(':').trim_end_matches("-->");
                marks = Some(said.split(',').map(|it| it.trim().to_owned()).collect());
            }
            (None, _) => assert!(!line.starts_with("holdfastctl "), "line {}: in no block", at + 1),
        }
    }
    blocks
}

/// Puts requests where a block wants one.
struct Hand<'a> {
    fleet: &'a Fleet,
    redis: Redis,
    shard: ShardKeys,
    session: Session,
    claims: std::cell::Cell<u64>,
}

impl<'a> Hand<'a> {
    fn on(fleet: &'a Fleet) -> Self {
        let redis = Redis::open(Options::new(fleet.redis.url())).unwrap();
        let shard = ShardKeys::new(&QueueName::try_from("q").unwrap(), 0);
        Self { fleet, redis, shard, session: Session::random(), claims: Default::default() }
    }

    /// Submits one, the more urgent the later, and takes it where the block wants it.
    async fn put(&self, block: &Block) -> String {
        let id = format!("line-{}", block.line);
        let minutes = 600 - block.line / 2;
        let mut item = format!("{{\"id\":\"{id}\",\"timeout\":\"{minutes}m\",\"payload\":{{}}");
        if block.is("delayed") {
            item += &format!(",\"not_before\":{}", unix() + 300);
        }
        let answer = self.fleet.post(&(item + "}")).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        if block.is("leased") || block.is("dead") {
            let owner = self.claim().await;
            if block.is("dead") {
                self.bury(owner).await;
            }
        }
        let state = self.fleet.status(&id).await["state"].clone();
        let named = ["delayed", "leased", "dead"].into_iter().find(|it| block.is(it));
        assert_eq!(state, named.unwrap_or("pending"), "line {}", block.line);
        id
    }

    async fn claim(&self) -> SettleItem {
        self.claims.set(self.claims.get() + 1);
        let claim = Claim {
            shard: &self.shard,
            fence: Fence::new(self.session, self.claims.get()),
            free: 1,
            lease: Duration::from_secs(3600),
            budget: 1 << 20,
            may_take_suspect: false,
            trusted_until: u64::MAX >> 12,
            along: 0,
        };
        let ClaimReply::Claimed(claimed) = claim.run(&self.redis).await.unwrap() else {
            panic!("stale")
        };
        let handle = claimed.leases.first().expect("a lease").handle;
        let failure = Failure { code: FailureCode::Connect, status: 0 };
        let kind = SettleKind::Bury { outcome: Burial::GaveUp, failure, answer: None };
        SettleItem { fence: claim.fence, handle, kind }
    }

    async fn bury(&self, item: SettleItem) {
        let settle = Settle { shard: &self.shard, items: &[item] };
        settle.run(&self.redis).await.unwrap();
    }
}

/// `holdfastctl` as the page means it: on the path, asking this fleet.
fn tool(folder: &Path, redis: &str) -> PathBuf {
    let program = env!("CARGO_BIN_EXE_it-holdfastctl");
    let path = folder.join("holdfastctl");
    fs::write(&path, format!("#!/bin/sh\nexec '{program}' \"$@\" --redis '{redis}'\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_page_does_what_the_page_says() {
    let fleet = Fleet::with(Setup::default(), RedisServer::start().await).await;
    let (hand, folder) = (Hand::on(&fleet), tempfile::tempdir().unwrap());
    tool(folder.path(), fleet.redis.url());
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let blocks = blocks();
    assert!(blocks.len() >= 15, "only {} blocks were found", blocks.len());
    for block in &blocks {
        let id = hand.put(block).await;
        let script = format!("set -e\n{}", block.script.replace("chat", "q"));
        let told = Process::run(
            "sh",
            &["-c", &script],
            &[("PATH", &path), ("ID", &id), ("USER", "operator")],
        )
        .await;
        let ended_well =
            told.status.success() || block.is("may find faults") && told.status.code() == Some(3);
        let (line, said) = (block.line, format!("{}{}", told.stdout, told.stderr));
        assert!(ended_well, "line {line} ended with {}:\n{said}", told.status);
        let asks_about_it = block.script.contains("$ID");
        let new = fleet.status(&id).await["state"].clone();
        let was_elsewhere = ["delayed", "leased", "dead"].into_iter().any(|it| block.is(it));
        let changed = was_elsewhere && new == "pending";
        let must_change =
            block.is("changes") && (asks_about_it || block.is("dead")) && !block.is("pending");
        assert_eq!(changed, must_change, "line {line}: {id} is {new} now:\n{said}");
        let audited = told.stderr.contains("audit: who=operator");
        assert_eq!(audited, block.is("changes"), "line {line}:\n{said}");
    }
}

#[test]
fn every_alert_has_its_section() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/alerts/holdfast.yml");
    let rules = fs::read_to_string(rules).unwrap();
    let anchors: Vec<String> = PAGE
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"))
        .collect();
    let links: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("runbook_url: docs/operations.md#"))
        .collect();
    assert!(links.len() >= 10, "only {} links", links.len());
    for link in links {
        assert!(anchors.iter().any(|it| it == link), "no section for #{link}");
    }
}

fn unix() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "callers name Unix times")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}
