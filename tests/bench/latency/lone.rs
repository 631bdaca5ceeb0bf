//! One request at a time, and the floor beside it, by turns and each after the same rest.
//!
//! A caller that waits is answered by a gateway that takes as long as the rest: on its way back the answer meets processes that
//! sleep, as it does when a model thinks. From the answer of the gateway on everything counts: the worker reads it, has it
//! kept, which is the ack, the producer hears of that and reads it, and the caller gets it.

use std::time::Duration;

use tokio::time::sleep;

use super::chain::Chain;
use crate::gateway::Gateway;
use crate::pickup::{JSON, idle, payload};
use crate::sleeper::Sleeper;
use crate::stage::Stage;
use crate::times::{Times, monotonic};

/// What comes first is slower on every side: connections are made, caches are cold.
const WARM_UP: usize = 10;

/// Stands in what the gateway takes its time for.
const SLOWLY: &str = "think twice";

/// What is needed to measure.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) stage: &'a Stage,
    pub(super) gateway: &'a Gateway,
    /// How long the system is left alone before each sample.
    pub(super) rest: Duration,
    pub(super) samples: usize,
    /// Whether nobody else calls: then a request can be told from others by coming alone.
    pub(super) is_alone: bool,
    /// The same hops with nothing else, where they are measured too: of every third sample.
    pub(super) chain: Option<&'a Chain>,
}

/// The samples of a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// From before RPUSH until another process has the answer to its BLPOP.
    pub(super) bell: Times,
    /// One POST straight to the gateway and its answer.
    pub(super) http: Times,
    /// From before the submit until the gateway has the call.
    pub(super) pickup: Times,
    /// From the answer of the gateway until a caller that waits has it.
    pub(super) back: Times,
    /// Both of these through the bare hops.
    pub(super) bare_pickup: Times,
    pub(super) bare_back: Times,
}

impl Plan<'_> {
    /// Measures; `name` makes its ids like no others.
    pub(super) async fn round(self, name: &str) -> Round {
        self.slow_down().await;
        let sleeper = Sleeper::start(self.stage.redis.port()).await;
        let Self { stage, gateway, rest, .. } = self;
        let idle = idle::Plan { stage, gateway, rest, samples: 0 };
        let mut measured = Round::default();
        for sample in 0..WARM_UP + self.samples {
            if sample == WARM_UP {
                measured = Round::default();
            }
            let id = format!("{name}-{sample}");
            measured.bell.push(idle.bell(&sleeper).await);
            measured.http.push(idle.http(&id).await);
            let (mut pickup, back) = self.waiting(&id).await;
            if self.is_alone {
                // Without a caller that waits, whose producer looks while the worker claims.
                (pickup, _) = idle.pickup(&format!("{id}-alone")).await;
            }
            measured.pickup.push(pickup);
            measured.back.push(back);
            if let Some(chain) = self.chain.filter(|_| sample % 3 == 0) {
                let (pickup, back) = self.chained(chain, &format!("{id}-bare")).await;
                measured.bare_pickup.push(pickup);
                measured.bare_back.push(back);
            }
        }
        measured
    }

    /// Until the gateway has the call, and from its answer until the caller has it.
    async fn waiting(&self, id: &str) -> (Duration, Duration) {
        let text = payload(&format!("{id}, {SLOWLY}"));
        let item = format!(r#"{{"id":"{id}","timeout":"1h","payload":{text}}}"#);
        let head = [JSON, &[("prefer", "wait=60")]].concat();
        sleep(self.rest).await;
        let began = monotonic();
        let answer = self.stage.http.request("POST", &self.stage.submit_url, &head, item).await;
        let ended = monotonic();
        assert_eq!(answer.header("holdfast-outcome"), Some("answered"), "{}", answer.text());
        let call = self.gateway.of(number(answer.text())).await;
        (call.last - began, ended - call.answered)
    }

    /// The same through the bare hops.
    async fn chained(&self, chain: &Chain, id: &str) -> (Duration, Duration) {
        let text = payload(&format!("{id}, {SLOWLY}"));
        sleep(self.rest).await;
        let began = monotonic();
        let answer = self.stage.http.request("POST", &chain.url(), JSON, text).await;
        let ended = monotonic();
        let call = self.gateway.of(number(answer.text())).await;
        (call.last - began, ended - call.answered)
    }

    /// Has the gateway take its time for some.
    async fn slow_down(&self) {
        let delay = self.rest.as_millis();
        let rules = format!(r#"[{{"match":{{"body_contains":"{SLOWLY}"}},"delay_ms":{delay}}}]"#);
        let url = self.gateway.url() + "/stand-in/script";
        let answer = self.stage.http.request("POST", &url, JSON, rules).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Which call an answer belongs to: the gateway says so in its text.
fn number(answer: &str) -> u64 {
    let number = answer.split_once("arrival ").and_then(|(_, rest)| rest.split_once(','));
    number.and_then(|(number, _)| number.parse().ok()).expect("the number of the call")
}
