//! The stand-in on a thread of its own: to the rest of the bench it is another server.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_testkit::StandIn;
use holdfast_testkit::stand_in::{Counts, Keep, Options};
use tokio::runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long anything may take to arrive.
const LIMIT: Duration = Duration::from_secs(120);

/// A running stand-in that keeps the last arrival.
pub(crate) struct Gateway {
    stand_in: Arc<StandIn>,
    /// Just after its clock began: arrivals look a few microseconds later than they were.
    began: Instant,
    _stop: DropGuard,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        let stop = CancellationToken::new();
        let (sender, started) = mpsc::channel();
        let stopped = stop.clone();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime for the stand-in").block_on(async {
                let options = Options { keep: Keep::Last(1), ..Options::default() };
                let stand_in = Arc::new(StandIn::start(options).await.expect("a stand-in"));
                sender
                    .send((Arc::clone(&stand_in), Instant::now()))
                    .expect("the bench waits for it");
                stopped.cancelled().await;
            });
        });
        let (stand_in, began) = started.recv().expect("the stand-in starts");
        Self { stand_in, began, _stop: stop.drop_guard() }
    }

    pub(crate) fn url(&self) -> String {
        self.stand_in.url()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.stand_in.counts()
    }

    /// When the last request arrived.
    pub(crate) fn last_arrival(&self) -> Instant {
        let last = self.stand_in.arrivals().pop().expect("an arrival");
        self.began + last.since_start
    }

    pub(crate) async fn until(&self, wanted: impl FnMut(&Counts) -> bool) -> Counts {
        self.stand_in.wait_until(LIMIT, wanted).await.expect("the stand-in is called")
    }
}
