//! Operators.

use holdfast_model::{
    call::{Call, Overrule},
    state::{Home, Word},
};

use super::{Run, fence, first};

impl Run {
    pub(super) fn pause(&mut self, version: u64, on: bool) -> &'static str {
        let (field, decide, value, total) = ("paused", true, on.then_some(1), None);
        first(&self.call(&Call::Overrule(Overrule { field, decide, version, value, total })))
    }
}

/// 27, within one shard
#[test]
fn a_late_pause_after_a_resume_changes_nothing() {
    let mut run = Run::new();
    assert_eq!(run.pause(0, true), "set");
    assert_eq!(run.pause(1, false), "set");
    assert_eq!(run.pause(0, true), "newer");
    let a = run.submit(0);
    assert_eq!(run.claim(1, 1, 1), [a]);
}

/// 27, within one of the shards that are told
#[test]
fn of_two_limits_that_come_in_either_order_the_later_version_stands() {
    let limit = |version, value| {
        let (field, decide) = ("limit", false);
        let (value, total) = (Some(value), Some(8 * value));
        Call::Overrule(Overrule { field, decide, version, value, total })
    };
    for (order, late) in [([10, 20], "newer"), ([20, 10], "already")] {
        let mut run = Run::new();
        let words = order.map(|value| limit(value / 10, value));
        words.iter().for_each(|word| drop(run.call(word)));
        assert_eq!(run.state.overruled("limit"), Some(20));
        assert_eq!(run.in_vain(&words[0]), late);
    }
}

/// 28
#[test]
fn a_late_retry_now_after_a_later_back_off_changes_nothing() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    run.settle(fence(1, 1), a, Word::Retry);
    let now = Call::Promote { limit: 256, named: vec![(a, run.state.homes[&a].till)] };
    assert_eq!(first(&run.call(&now)), "moved");
    run.now += 1;
    assert_eq!(run.claim(1, 2, 1), [a]);
    run.settle(fence(1, 2), a, Word::Retry);
    assert_eq!(run.in_vain(&now), "changed");
    assert_eq!(run.home(a), Home::Delayed);
}
