//! An idle system: from a submit to its arrival at the gateway.
//!
//! The floor is what any queue over Redis must do: wake a process that sleeps in BLPOP, and make one call over HTTP. Both
//! are measured with clients of a few lines, by turns with the real thing and after the same rest.
//!
//! The rest decides what is measured. A processor that slept has to fetch the code of whoever wakes: the longer the sleep, the
//! colder all sides are, and the more a wake-up itself costs beside the work it was for.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::sleep;

use super::{JSON, item, payload};
use crate::gateway::Gateway;
use crate::sleeper::Sleeper;
use crate::stage::Stage;
use crate::times::{Times, monotonic};

/// What comes first is slower on every side: connections are made, caches are cold.
const WARM_UP: u32 = 50;

/// What is needed to measure.
pub(crate) struct Plan<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) gateway: &'a Gateway,
    /// How long the system is left alone before each sample.
    pub(crate) rest: Duration,
    pub(crate) samples: u32,
}

/// The samples of a round at one rest, in microseconds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Round {
    /// How long the system was left alone before each sample, in ms.
    pub(crate) rest: u64,
    /// From before RPUSH until another process has the answer to its BLPOP.
    pub(crate) bell: Times,
    /// One POST straight to the gateway and its answer.
    pub(crate) http: Times,
    /// From before the submit until the gateway has the call.
    pub(crate) pickup: Times,
    /// The submit until its 202.
    pub(crate) submit: Times,
}

impl Plan<'_> {
    pub(crate) async fn round(&self, round: usize) -> Round {
        let sleeper = Sleeper::start(self.stage.redis.port()).await;
        let rest = u64::try_from(self.rest.as_millis()).expect("a rest in ms");
        let mut measured = Round::default();
        for sample in 0..WARM_UP + self.samples {
            if sample == WARM_UP {
                measured = Round { rest, ..Round::default() };
            }
            let id = format!("lone-{rest}-{round}-{sample}");
            measured.bell.push(self.bell(&sleeper).await);
            measured.http.push(self.http(&id).await);
            let (pickup, submit) = self.pickup(&id).await;
            measured.pickup.push(pickup);
            measured.submit.push(submit);
        }
        measured
    }

    /// The wake-up, after the rest.
    pub(crate) async fn bell(&self, sleeper: &Sleeper) -> Duration {
        sleep(self.rest).await;
        sleeper.wake().await
    }

    /// The call, after the rest.
    pub(crate) async fn http(&self, id: &str) -> Duration {
        let (url, payload) = (self.gateway.url() + "/v1/chat/completions", payload(id));
        sleep(self.rest).await;
        let began = Instant::now();
        let answer = self.stage.http.request("POST", &url, JSON, payload).await;
        let took = began.elapsed();
        assert_eq!(answer.status, 200);
        took
    }

    /// Until the gateway has the call, by its own journal, and until the 202.
    pub(crate) async fn pickup(&self, id: &str) -> (Duration, Duration) {
        let (before, item) = (self.gateway.now().await, item(id));
        self.gateway.ask(before.arrived + 1, before.given).await;
        sleep(self.rest).await;
        let began = monotonic();
        let arrived = async { self.gateway.told().await.last - began };
        let submitted = async {
            let answer = self.stage.http.request("POST", &self.stage.submit_url, JSON, item).await;
            assert_eq!(answer.status, 202, "{}", answer.text());
            monotonic() - began
        };
        let took = tokio::join!(arrived, submitted);
        self.gateway.until(before.arrived + 1, before.given + 1).await;
        took
    }
}
