//! Ledgers over made-up runs.

use super::*;

const LEASE: Duration = Duration::from_secs(3);

fn body(id: &str) -> Bytes {
    format!("{{\"user\":\"{id}\"}}").into()
}

fn answer(id: &str, arrival: usize) -> Bytes {
    format!("answer to {id} at arrival {arrival}").into()
}

fn reading(body: Bytes) -> Reading {
    let word = |word: &str| word.to_owned();
    Reading { outcome: word("answered"), status: word("200"), generation: word("g1"), body }
}

/// A run: `call` adds arrivals, `end` their results.
struct Run(Evidence);

impl Run {
    /// Requests that were accepted; `w1` is killed after 1 s.
    fn of(ids: &[&str]) -> Self {
        Self(Evidence {
            accepted: ids.iter().map(|id| ((*id).to_owned(), body(id))).collect(),
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            arrivals: Vec::new(),
            kill: Kill { worker: "w1".to_owned(), at: Duration::from_secs(1) },
            fenced: 1,
        })
    }

    fn call(mut self, id: &str, worker: &str, at_ms: u64, is_answered: bool) -> Self {
        let answer = is_answered.then(|| answer(id, self.0.arrivals.len() + 1));
        let at = Duration::from_millis(at_ms);
        self.0.arrivals.push(Arrival { at, worker: worker.to_owned(), body: body(id), answer });
        self
    }

    /// The result of a request is the answer to this arrival, at first and at last.
    fn end(mut self, id: &str, first: usize, last: usize) -> Self {
        self.0.first.insert(id.to_owned(), reading(answer(id, first)));
        self.0.last.insert(id.to_owned(), reading(answer(id, last)));
        self
    }

    fn ledger(&self) -> Ledger {
        Ledger::of(&self.0)
    }

    fn faults(&self) -> Vec<String> {
        self.ledger().faults(self.0.accepted.len(), LEASE)
    }
}

/// `a` is answered at once, `b` is held by the worker that is killed.
fn clean() -> Run {
    let run = Run::of(&["a", "b"]).call("a", "w2", 100, true).call("b", "w1", 900, false);
    run.call("b", "w2", 4_500, true).end("a", 1, 1).end("b", 3, 3)
}

#[test]
fn a_clean_run_adds_up() {
    let run = clean();
    let expected = Ledger {
        accepted: 2,
        answered: 2,
        answered_twice: 0,
        lost: 0,
        redelivered: 1,
        fenced: 1,
        takeover: Some(Duration::from_millis(3_500)),
    };
    assert_eq!(run.ledger(), expected);
    assert!(run.faults().is_empty(), "{:?}", run.faults());
}

#[test]
fn a_request_without_a_record_is_lost() {
    let mut run = clean();
    run.0.first.remove("a");
    run.0.last.remove("a");
    let ledger = run.ledger();
    assert_eq!((ledger.lost, ledger.answered), (1, 1));
    assert_eq!(run.faults(), ["answered 1 of 2", "1 lost"]);
}

#[test]
fn a_record_that_vanished_is_lost_although_it_was_read() {
    let mut run = clean();
    run.0.last.remove("a");
    assert_eq!(run.ledger().lost, 1);
}

#[test]
fn a_record_that_changed_is_an_answer_given_twice() {
    let run = clean().call("a", "w3", 5_000, true).end("a", 1, 4);
    let ledger = run.ledger();
    assert_eq!((ledger.answered_twice, ledger.redelivered), (1, 2));
    assert_eq!(run.faults(), ["1 answered twice"]);
}

#[test]
fn a_second_generation_with_the_same_answer_is_one_too_many() {
    let mut run = clean();
    let again = Reading { generation: "g2".to_owned(), ..reading(answer("a", 1)) };
    run.0.last.insert("a".to_owned(), again);
    assert_eq!(run.ledger().answered_twice, 1);
}

#[test]
fn a_call_that_is_repeated_is_no_answer_given_twice() {
    let run = clean().call("a", "w3", 5_000, true);
    assert_eq!((run.ledger().answered_twice, run.ledger().redelivered), (0, 2));
    assert!(run.faults().is_empty());
}

#[test]
fn an_answer_to_another_request_does_not_count() {
    let mut run = clean();
    run.0.first.insert("a".to_owned(), reading(answer("b", 3)));
    run.0.last.insert("a".to_owned(), reading(answer("b", 3)));
    assert_eq!(run.faults(), ["answered 1 of 2"]);
}

#[test]
fn an_end_that_is_no_answer_does_not_count() {
    for (outcome, status) in [("killed-workers", ""), ("answered", "500")] {
        let mut run = clean();
        let (outcome, status) = (outcome.to_owned(), status.to_owned());
        let dead = Reading { outcome, status, ..reading(answer("a", 1)) };
        run.0.first.insert("a".to_owned(), dead.clone());
        run.0.last.insert("a".to_owned(), dead);
        assert_eq!(run.faults(), ["answered 1 of 2"]);
    }
}

#[test]
fn a_body_that_changed_on_the_way_is_no_call_for_the_request() {
    let mut run = clean();
    run.0.arrivals[0].body = Bytes::from_static(b"{\"user\": \"a\"}");
    assert_eq!(run.faults(), ["answered 1 of 2"]);
}

#[test]
fn the_takeover_ends_with_the_last_request_that_the_killed_worker_held() {
    let run = Run::of(&["a", "b", "c", "d"])
        .call("a", "w1", 200, true) // Settled before the kill: not held.
        .call("b", "w1", 800, false)
        .call("c", "w1", 990, true) // Answered, but not settled any more.
        .call("d", "w3", 990, false) // Held by another.
        .call("b", "w2", 4_000, true)
        .call("c", "w2", 4_200, true)
        .call("d", "w2", 9_000, true);
    assert_eq!(run.ledger().takeover, Some(Duration::from_millis(3_200)));
}

#[test]
fn a_takeover_that_took_too_long_or_never_came_is_told() {
    let late =
        Run::of(&["b"]).call("b", "w1", 900, false).call("b", "w2", 6_100, true).end("b", 2, 2);
    assert_eq!(late.faults(), ["the takeover took 5.1 s of 5.0 s"]);
    let never = Run::of(&["b"]).call("b", "w1", 900, false);
    assert_eq!(never.ledger().takeover, None);
    let nothing_held = Run::of(&["a"]).call("a", "w2", 100, true).end("a", 1, 1);
    assert_eq!(nothing_held.faults(), ["what the killed worker held was not taken over"]);
}

#[test]
fn a_run_in_which_nothing_was_fenced_proves_nothing() {
    let mut run = clean();
    run.0.fenced = 0;
    assert_eq!(run.faults().len(), 1);
}

#[test]
fn fewer_accepted_than_submitted_is_told() {
    assert_eq!(clean().ledger().faults(3, LEASE), ["accepted 2 of 3"]);
}

#[test]
fn the_json_has_the_documented_names() {
    let json = serde_json::to_string(&clean().ledger()).unwrap();
    let expected = r#"{"accepted":2,"answered":2,"answered_twice":0,"lost":0,"redelivered":1,"fenced":1,"takeover_seconds":3.5}"#;
    assert_eq!(json, expected);
}
