//! A file that is written through before each answer: what each write-through carries.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use holdfast_testkit::{AppendFsync, RedisOptions};
use tokio::task::JoinSet;

use super::cycle::{BATCH, ratios};
use super::floor::{Floor, Floors};
use super::holdfast::Holdfast;
use crate::Effort;
use crate::report::{Row, median};
use crate::server;

/// Workers at once, each with a connection of its own.
const WORKERS: usize = 4;

/// Bytes that a claim or a settle of a batch writes, about.
const WRITE: usize = 32 << 10;

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let rounds = if effort == Effort::Quick { 3 } else { 7 };
    let always = |it: &mut RedisOptions| it.appendfsync = AppendFsync::Always;
    let server = server::start(always).await;
    let url = server.url().to_owned();
    let folder = server.dir().to_owned();
    let mut first = Holdfast::new(server, &url, 1 << 10).await;
    // Not written through: what stays of it if nobody waits for the disk.
    let (mut floors, mut under) = (Floor::both(1 << 10).await, Floors::default());
    let (mut rates, mut syncs, mut carried) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        eprintln!("written through: round {round} of {rounds}");
        first.fill(WORKERS * 20).await;
        let before = synced(&folder);
        let rate = together(&first, 20).await;
        let sync = (before + synced(&folder)) / 2.0;
        let mut floor = Vec::new();
        for side in &mut floors {
            let [_, worked] = side.phases(20, false).await;
            floor.push(worked);
        }
        if round > 0 {
            under.push(&floor);
            rates.push(rate);
            syncs.push(sync * 1e6);
            carried.push(rate * sync);
        }
    }
    let note = format!(
        "{:.0} claims and acks a second, {:.0} us an fsync",
        median(&rates),
        median(&syncs)
    );
    let row = Row::new("appendfsync always: claims and acks in the time of one fsync", "", {
        median(&carried)
    });
    let row = row.at_least(80.0).note(note);
    // So many would fit if the disk took no time at all of the server's one thread.
    let fit = |own: &[f64]| ratios(&syncs, own);
    let row = under.under(row, "us of the server a claim and ack", |it| &it.cpu, fit);
    vec![row.samples("a second", rates).samples("fsync, us", syncs)]
}

/// Claims and acks a second, one of each counted as one, by some workers at once.
async fn together(side: &Holdfast, turns: usize) -> f64 {
    let mut workers = JoinSet::new();
    let began = Instant::now();
    for _ in 0..WORKERS {
        let mut worker = side.another();
        workers.spawn(async move {
            for _ in 0..turns {
                worker.work_some(BATCH).await;
            }
        });
    }
    workers.join_all().await;
    (WORKERS * turns * BATCH) as f64 / began.elapsed().as_secs_f64()
}

/// What writing through takes in that folder, in seconds: the median of some.
fn synced(folder: &std::path::Path) -> f64 {
    let path = folder.join("bench-fsync");
    let mut file = File::create(&path).expect("a file beside the server's");
    let mut sample = || {
        let began = Instant::now();
        file.write_all(&[7; WRITE]).expect("room");
        file.sync_data().expect("a disk");
        began.elapsed().as_secs_f64()
    };
    let samples: Vec<f64> = (0..50).map(|_| sample()).collect();
    std::fs::remove_file(&path).expect("the file is there");
    median(&samples)
}
