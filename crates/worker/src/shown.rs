//! What others see of this worker: its row in the registry, and what its breakers do.

use std::time::SystemTime;

use holdfast_core::metrics;
use holdfast_core::model::QueueName;
use holdfast_runtime::VERSION;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::breaker::{Breaker, State};

/// A row names so many breakers at most.
const NAMED: usize = 64;

/// What was last told of this worker.
pub(crate) struct Shown {
    name: String,
    /// Requests at once, over all its queues.
    slots: usize,
    gates: Vec<Gate>,
    row: watch::Sender<String>,
}

/// A queue's breaker as it was last told.
struct Gate {
    queue: QueueName,
    state: State,
    allowed: Option<usize>,
    reason: &'static str,
    /// Unix time of the change.
    since: f64,
}

impl Shown {
    /// A worker whose breakers are closed, and its row as it changes.
    pub(crate) fn new(
        name: &str,
        slots: usize,
        queues: Vec<QueueName>,
    ) -> (Self, watch::Receiver<String>) {
        let gate = |queue| Gate {
            queue,
            state: State::Closed,
            allowed: None,
            reason: "",
            since: unix_now(),
        };
        let (row, told) = watch::channel(String::new());
        let gates = queues.into_iter().map(gate).collect();
        let shown = Self { name: name.to_owned(), slots, gates, row };
        shown.row.send_replace(shown.written());
        (shown, told)
    }

    /// A target gets less from now on.
    pub(crate) fn cut(&self, queue: usize, breaker: &Breaker) {
        metrics::gate_cut(self.gates[queue].queue.as_str(), breaker.reason());
    }

    /// Tells what has changed of a breaker, if anything.
    pub(crate) fn look(&mut self, queue: usize, breaker: &Breaker) {
        let gate = &mut self.gates[queue];
        let (state, allowed) = (breaker.state(), breaker.allowed());
        if gate.allowed != Some(allowed) || gate.state != state {
            metrics::gate(gate.queue.as_str(), state as u8, allowed);
            gate.allowed = Some(allowed);
        }
        if gate.state == state && (state == State::Closed || gate.reason == breaker.reason()) {
            return;
        }
        gate.reason = breaker.reason();
        if gate.state != state {
            log(gate, state);
            (gate.state, gate.since) = (state, unix_now());
        }
        self.row.send_replace(self.written());
    }

    /// The row: JSON, with the breakers that are not closed.
    fn written(&self) -> String {
        let Self { name, slots, gates, .. } = self;
        let held_back = gates.iter().filter(|gate| gate.state != State::Closed).take(NAMED);
        let told = |gate: &Gate| {
            let Gate { state, reason, since, .. } = gate;
            let told = json!({"state": state.word(), "reason": reason, "since": since});
            (gate.queue.to_string(), told)
        };
        let breakers: Map<String, Value> = held_back.map(told).collect();
        let mut row = json!({"name": name, "version": VERSION, "concurrency": slots});
        if !breakers.is_empty() {
            row["breakers"] = Value::Object(breakers);
        }
        row.to_string()
    }
}

/// Only what an operator may want to know: a step up or down is none of it.
fn log(gate: &Gate, state: State) {
    let Gate { queue, reason, .. } = gate;
    match state {
        State::Open => warn!(%queue, reason, "the target refuses every call: probes only"),
        State::Closed => info!(%queue, "the target gets all calls again"),
        State::Limited => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "for eyes only")]
fn unix_now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // To the millisecond: a state is no measurement.
    (since.unwrap_or_default().as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::breaker::Sign;

    #[test]
    fn the_row_tells_of_breakers_that_hold_a_target_back_and_of_no_others() {
        let queues = ["a", "b"].map(|name| QueueName::try_from(name).unwrap());
        let (mut shown, mut told) = Shown::new("w1", 72, queues.to_vec());
        let row = |told: &mut watch::Receiver<String>| -> Value {
            serde_json::from_str(&told.borrow_and_update()).unwrap()
        };
        let before = row(&mut told);
        assert_eq!((&before["name"], &before["concurrency"]), (&json!("w1"), &json!(72)));
        assert_eq!(before["breakers"], Value::Null);

        let (mut breaker, now) = (Breaker::new(8), Instant::now());
        shown.look(1, &breaker);
        assert!(!told.has_changed().unwrap(), "it is closed, as was told");
        for _ in 0..5 {
            let call = breaker.begin(now);
            let busy = Sign::Busy { reason: "429", asked: None };
            breaker.end(call, Some(busy), now, 0, &mut StdRng::seed_from_u64(1));
            shown.look(1, &breaker);
        }
        let open = row(&mut told);
        assert_eq!(
            (&open["breakers"]["b"]["state"], &open["breakers"]["b"]["reason"]),
            (&json!("open"), &json!("429"))
        );
        assert!(open["breakers"]["b"]["since"].as_f64().unwrap() > 0.0);
        assert_eq!(open["breakers"]["a"], Value::Null);
        shown.look(1, &breaker);
        assert!(!told.has_changed().unwrap());

        shown.look(1, &Breaker::new(8));
        assert_eq!(row(&mut told), before);
    }
}
