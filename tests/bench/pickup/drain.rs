//! A full queue: one worker, and beside it a bare loop over the same HTTP client.

use std::time::{Duration, Instant};

use holdfast_testkit::eventually;
use serde::Serialize;
use tokio::task::JoinSet;

use super::{JSON, item, payload};
use crate::gateway::Gateway;
use crate::stage::Stage;

/// How long the last records may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What is needed to measure.
pub(super) struct Plan<'a> {
    pub(super) stage: &'a Stage,
    pub(super) gateway: &'a Gateway,
    pub(super) requests: u64,
    pub(super) concurrency: u64,
}

/// The figures of a round, in requests a second.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    /// Calls straight to the gateway.
    pub(super) bare: f64,
    /// Submits, one a call, taken by the producer.
    pub(super) submitted: f64,
    /// From the first arrival until the last record is written.
    pub(super) drained: f64,
}

impl Plan<'_> {
    pub(super) async fn round(&self, round: usize) -> Round {
        let (stage, gateway) = (self.stage, self.gateway);
        let url = gateway.url() + "/v1/chat/completions";
        let bare = self.loop_over(&url, 200, move |n| payload(&format!("bare-{round}-{n}"))).await;
        let submit = move |n| item(&format!("drain-{round}-{n}"));
        let submitted = self.loop_over(&stage.submit_url, 202, submit).await;

        let (before, records) = (gateway.now().await, stage.records().await);
        assert_eq!(stage.unfinished().await, self.requests as i64);
        let worker = stage.worker_at_once();
        gateway.until(before.arrived + 1, 0).await;
        let began = Instant::now();
        let after = gateway.until(0, before.given + self.requests).await;
        eventually("all is settled", LIMIT, async || match stage.unfinished().await {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        })
        .await;
        let drained = self.rate(began.elapsed());
        stage.end(worker).await;
        assert_eq!(after.arrived - before.arrived, self.requests, "each is called once");
        assert_eq!(stage.records().await - records, self.requests as i64, "each has its record");
        Round { bare, submitted, drained }
    }

    /// POSTs every request to `url`, as many at once as the concurrency says, and gives the rate.
    async fn loop_over(
        &self,
        url: &str,
        status: u16,
        body: impl Fn(u64) -> String + Clone + Send + 'static,
    ) -> f64 {
        let mut callers = JoinSet::new();
        let began = Instant::now();
        for first in 0..self.concurrency {
            let (http, url, body) = (self.stage.http.clone(), url.to_owned(), body.clone());
            let mine = (first..self.requests).step_by(self.concurrency as usize);
            callers.spawn(async move {
                for n in mine {
                    let answer = http.request("POST", &url, JSON, body(n)).await;
                    assert_eq!(answer.status, status, "{}", answer.text());
                }
            });
        }
        callers.join_all().await;
        self.rate(began.elapsed())
    }

    fn rate(&self, took: Duration) -> f64 {
        self.requests as f64 / took.as_secs_f64()
    }
}
