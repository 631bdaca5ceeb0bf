//! A worker whose dispatch side hangs while its renewals go on holds nothing for ever.

use std::thread;
use std::time::{Duration, Instant};

use holdfast_runtime::{Environment, Settings, Stop};
use tokio::sync::oneshot;

use crate::fleet::{Fleet, SOON};

/// Starts a worker in this process, and can hang everything of it but its renewer.
fn hangable_worker(settings: &str) -> (oneshot::Sender<()>, Stop, thread::JoinHandle<()>) {
    let settings = Settings::load(settings, &Environment::default()).expect("usable settings");
    let config = holdfast_worker::Config::read(&settings).expect("a worker's settings");
    let (hang, hung) = oneshot::channel::<()>();
    let stop = Stop::default();
    let asked = stop.clone();
    let running = thread::spawn(move || {
        // The single thread of this runtime does all but the renewals, which have their own.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let services = runtime.block_on(
            runtime.spawn(async { holdfast_worker::start(config).await.expect("a worker") }),
        );
        let services = services.expect("a started worker");
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn_on(async move { hung.await.map(|()| thread::park()) }, runtime.handle());
        // Until the test ends, the worker can't even be told to stop.
        drop(runtime.block_on(async { tokio::time::timeout(SOON, services.run(&asked)).await }));
        runtime.shutdown_background();
    });
    (hang, stop, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_dispatch_side_hangs_holds_nothing_past_deadline_and_lease() {
    let fleet = Fleet::start().await;
    let _reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let (hang, stop, running) =
        hangable_worker(&fleet.settings("worker", holdfast_testkit::free_port()));
    let submitted = Instant::now();
    fleet.post("{\"id\":\"held\",\"timeout\":\"6s\",\"payload\":{}}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    hang.send(()).expect("a worker that runs");

    // Renewed all the time until its deadline, then for one lease more, and no longer.
    let (outcome, _) = fleet.result("held").await;
    let took = submitted.elapsed();
    assert_eq!(outcome, "deadline-exceeded");
    assert!(
        took >= Duration::from_secs(6),
        "it ended {took:?} after its submission: was its lease not renewed?"
    );
    // Deadline and lease, and ten seconds for a machine that is busy.
    assert!(took < Duration::from_secs(6 + 3 + 10), "it was held for {took:?}");
    assert_eq!(fleet.count("leased").await, 0);
    stop.now.cancel();
    drop(running);
}
