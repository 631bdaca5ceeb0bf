//! Ids that are used again.

use holdfast_model::{
    call::Call,
    state::{Outcome, Word},
};

use super::{Run, fence, first, submit};

/// 18
#[test]
fn a_submit_that_met_an_ended_one_is_guarded_until_its_copies_are_gone() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    run.settle(fence(1, 1), a, Word::Ack);
    run.now = run.state.homes[&a].till - 1;
    let again = run.item(0);
    assert_eq!(first(&run.call(&submit(&again))), "known");
    run.now += 60_000;
    run.call(&Call::Sweep { limit: 128, age: 600_000 });
    assert_eq!(first(&run.call(&submit(&again))), "known", "its late copy");
    assert_eq!(run.outcome(a), Some(Outcome::Answered));
}

/// 19
#[test]
fn of_two_redrives_one_starts_and_late_copies_mean_the_old_one() {
    let mut run = Run::new();
    let old = run.dead(0);
    let (one, other) = (run.item(0).generation, run.item(0).generation);
    let first_redrive = Call::Redrive(vec![(old, one, 0)]);
    assert_eq!(first(&run.call(&first_redrive)), "redriven");
    assert_eq!(run.in_vain(&Call::Redrive(vec![(old, other, 0)])), "gone");
    assert_eq!(run.in_vain(&first_redrive), "already");
    assert_eq!(run.in_vain(&super::settle(fence(9, 1), old, Word::Bury)), "gone");
    assert_eq!(run.in_vain(&Call::Cancel(vec![old])), "gone");
    assert_eq!(run.state.live(), 1);
}

/// 20
#[test]
fn a_flag_does_not_outlive_a_redrive() {
    let mut run = Run::new();
    let old = run.submit(0);
    run.claim(1, 1, 1);
    run.call(&Call::Cancel(vec![old]));
    assert_eq!(run.settle(fence(1, 1), old, Word::Bury), "ok");
    let generation = run.item(0).generation;
    run.call(&Call::Redrive(vec![(old, generation, 0)]));
    assert_eq!(run.claim(1, 2, 1).len(), 1);
    run.lapse();
    assert!(run.state.records.is_empty(), "it waits again");
}
