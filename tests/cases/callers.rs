//! Callers that submit all the time, whatever happens to Redis meanwhile, and keep what they were told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdfast_testkit::{Http, eventually};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fleet::{Fleet, SOON};
use crate::stage;

/// The pause before a submit that was not accepted is repeated, as any caller would.
const AGAIN: Duration = Duration::from_millis(50);

/// Some of them, until they are told to stop.
pub(crate) struct Callers {
    running: JoinSet<()>,
    shared: Arc<Shared>,
}

struct Shared {
    http: Http,
    stop: AtomicBool,
    accepted: Mutex<Vec<Accepted>>,
}

/// A request of which a caller was told that it is there.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    /// Its queue.
    pub(crate) queue: String,
    /// Its id.
    pub(crate) id: String,
    /// When it was sent for the last time, and answered.
    sent: Instant,
    at: Instant,
}

impl Callers {
    /// One caller for each of these queues, who pauses between two submits.
    pub(crate) fn start(fleet: &Fleet, queues: &[&str], pause: Duration) -> Self {
        let (http, stop) = (fleet.http.clone(), AtomicBool::new(false));
        let shared = Arc::new(Shared { http, stop, accepted: Mutex::default() });
        let mut running = JoinSet::new();
        for queue in queues {
            let url = fleet.api(&format!("/v1/queues/{queue}/requests"));
            running.spawn(Arc::clone(&shared).call((*queue).to_owned(), url, pause));
        }
        Self { running, shared }
    }

    /// Waits until every queue has taken some.
    pub(crate) async fn under_way(&self, queues: &[&str]) {
        eventually("they are under way", SOON, async || {
            let accepted = self.accepted();
            let of = |queue: &str| accepted.iter().filter(|it| it.queue == queue).count();
            match queues.iter().map(|queue| of(queue)).min() {
                Some(least) if least > 5 => Ok(()),
                least => Err(format!("{least:?}")),
            }
        })
        .await;
    }

    /// Waits until every queue has taken a request that was sent after `since`, and gives how long that took.
    pub(crate) async fn heard_since(
        &self,
        queues: &[&str],
        since: Instant,
        limit: Duration,
    ) -> Duration {
        eventually("a submit is accepted again", limit, async || {
            let accepted = self.accepted();
            let first = |queue: &str| {
                let mut later = accepted.iter().filter(|it| it.queue == queue && it.sent >= since);
                later.next().map(|it| it.at)
            };
            let firsts: Option<Vec<Instant>> = queues.iter().map(|queue| first(queue)).collect();
            let last = firsts.and_then(|firsts| firsts.into_iter().max()).ok_or("none yet")?;
            Ok::<_, &str>(last.saturating_duration_since(since))
        })
        .await
    }

    /// Ends them, once what each has begun is accepted.
    pub(crate) async fn stop(mut self) -> Vec<Accepted> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ended = tokio::time::timeout(SOON, async {
            while let Some(ended) = self.running.join_next().await {
                ended.expect("a caller");
            }
        });
        ended.await.expect("every submit is accepted in the end");
        self.accepted()
    }

    fn accepted(&self) -> Vec<Accepted> {
        self.shared.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    async fn call(self: Arc<Self>, queue: String, url: String, pause: Duration) {
        for number in 0.. {
            let id = format!("{queue}-{number}");
            let payload = stage::payload(&id);
            let item = format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{payload}}}");
            let headers = [("content-type", "application/json")];
            let (sent, at) = loop {
                let sent = Instant::now();
                match self.http.try_request("POST", &url, &headers, item.clone()).await {
                    Ok(answer) if matches!(answer.status, 200 | 202) => {
                        break (sent, Instant::now());
                    }
                    Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
                    Err(_) => {}
                }
                sleep(AGAIN).await;
            };
            let accepted = Accepted { queue: queue.clone(), id, sent, at };
            self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(accepted);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            sleep(pause).await;
        }
    }
}
