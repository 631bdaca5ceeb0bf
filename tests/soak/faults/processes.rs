//! Processes are killed, frozen, stopped, started on machines with another clock.

use std::time::Duration;

use holdfast_testkit::eventually;
use tokio::time::sleep;

use super::Kind;
use crate::checker;
use crate::dice::Dice;
use crate::stage::{LEASE, Place, Role, Stage};

/// How long is waited for a moment at which a worker has calls under way.
const BUSY: Duration = Duration::from_secs(60);

pub(super) async fn happen(kind: Kind, stage: &Stage, dice: &mut Dice) -> u64 {
    let worker = dice.of(&stage.of(Role::Worker));
    match kind {
        Kind::WorkerKilled => killed(stage, worker, dice).await,
        Kind::WorkerFrozen => frozen(stage, worker).await,
        Kind::WorkerStopped => stopped(stage, worker).await,
        Kind::WorkerSkewed => skewed(stage, worker).await,
        Kind::ProducerKilled => {
            let place = dice.of(&stage.of(Role::Producer));
            let before = stage.ledger.troubled();
            kill(place).await;
            sleep(Duration::from_millis(dice.of(&[50, 500]))).await;
            stage.start(place, false).await;
            stage.ready(place).await;
            stage.ledger.troubled() - before
        }
        Kind::ReclaimerKilled => {
            let place = dice.of(&stage.of(Role::Reclaimer));
            kill(place).await;
            let hit = killed(stage, worker, dice).await;
            stage.start(place, false).await;
            stage.ready(place).await;
            hit
        }
        _ => rolled(stage).await,
    }
}

async fn kill(place: &Place) {
    if let Some(running) = place.running.lock().await.as_mut() {
        running.process.kill();
    }
}

/// Waits until the worker in a place is busy: how many calls it has under way, and whose they are.
async fn busy(stage: &Stage, place: &Place) -> Vec<String> {
    let mark = place.running.lock().await.as_ref().map(|it| it.mark.clone()).unwrap_or_default();
    eventually("a worker is busy", BUSY, async || {
        let calls = stage.open_calls(&mark);
        let ids: Vec<String> = calls.iter().filter_map(|it| checker::id_in(&it.body)).collect();
        if ids.is_empty() { Err("it has no call under way") } else { Ok(ids) }
    })
    .await
}

async fn killed(stage: &Stage, place: &Place, dice: &mut Dice) -> u64 {
    let calls = busy(stage, place).await;
    kill(place).await;
    sleep(Duration::from_millis(dice.of(&[0, 300, 1_000]))).await;
    stage.start(place, false).await;
    stage.ready(place).await;
    calls.len() as u64
}

/// It wakes with the answers to its calls in its sockets, long after its leases have lapsed.
async fn frozen(stage: &Stage, place: &Place) -> u64 {
    let calls = busy(stage, place).await;
    let before = stage.gateway.counts().arrived;
    if let Some(running) = place.running.lock().await.as_mut() {
        running.process.freeze();
    }
    sleep(LEASE * 2).await;
    if let Some(running) = place.running.lock().await.as_mut() {
        running.process.wake();
    }
    let since = stage.latest().into_iter().filter(|it| it.number > before);
    let again: Vec<String> = since.filter_map(|it| checker::id_in(&it.body)).collect();
    calls.iter().filter(|id| again.contains(id)).count() as u64
}

async fn stopped(stage: &Stage, place: &Place) -> u64 {
    let calls = busy(stage, place).await;
    restart(stage, place, false).await;
    calls.len() as u64
}

async fn skewed(stage: &Stage, place: &Place) -> u64 {
    if stage.skew.is_none() {
        return 0;
    }
    restart(stage, place, true).await;
    busy(stage, place).await.len() as u64
}

async fn restart(stage: &Stage, place: &Place, skewed: bool) {
    if let Some(running) = place.running.lock().await.as_mut() {
        running.process.terminate().await;
    }
    stage.start(place, skewed).await;
    stage.ready(place).await;
}

async fn rolled(stage: &Stage) -> u64 {
    let mut under_way = 0;
    for place in &stage.places {
        under_way += stage.ledger.under_way();
        restart(stage, place, false).await;
    }
    under_way
}
