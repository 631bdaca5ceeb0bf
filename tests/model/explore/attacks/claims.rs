//! Claims, their repeats, and their late copies.

use holdfast_model::state::{Home, Outcome, Session, Word};

use super::{Run, claim, fence};

/// 1
#[test]
fn a_late_claim_with_a_smaller_number_is_stale() {
    let mut run = Run::new();
    let a = run.submit(0);
    assert_eq!(run.claim(1, 5, 1), [a]);
    let b = run.submit(1);
    assert_eq!(run.claim(1, 6, 1), [b]);
    run.submit(2);
    assert_eq!(run.in_vain(&claim(1, 5, 1)), "stale");
    assert_eq!(run.state.sessions[&Session(1)].call, 6);
}

/// 2
#[test]
fn a_claim_that_found_nothing_never_leases_later() {
    let mut run = Run::new();
    assert!(run.claim(1, 5, 1).is_empty());
    let a = run.submit(0);
    assert!(run.claim(1, 5, 1).is_empty(), "a late copy");
    assert!(run.claim(1, 5, 1).is_empty(), "the worker's repeat");
    assert_eq!(run.claim(1, 6, 1), [a]);
}

/// 3
#[test]
fn a_repeat_is_answered_the_same_in_a_paused_queue() {
    let mut run = Run::new();
    let (a, b) = (run.submit(0), run.submit(1));
    assert_eq!(run.claim(1, 5, 2), [a, b]);
    run.pause(0, true);
    run.now += 3_000;
    assert_eq!(run.claim(1, 5, 2), [a, b]);
    assert_eq!(run.state.homes[&a].till, run.now + super::LEASE, "renewed");
}

/// 4
#[test]
fn a_repeat_gives_nothing_that_is_no_longer_held() {
    let mut run = Run::new();
    let (a, b) = (run.submit(0), run.submit(1));
    assert_eq!(run.claim(1, 5, 2), [a, b]);
    assert_eq!(run.settle(fence(1, 5), a, Word::Ack), "ok");
    run.lapse();
    assert_eq!(run.claim(2, 1, 1), [b]);
    assert!(run.claim(1, 5, 2).is_empty());
    assert_eq!(run.home(b), Home::Leased(fence(2, 1)));
}

/// 5
#[test]
fn a_claim_that_is_repeated_for_ever_holds_nothing_for_ever() {
    let mut run = Run::new();
    let a = run.submit(0);
    let end = run.now + super::LIFE + super::LEASE;
    while run.now <= end {
        run.claim(1, 5, 1);
        run.pass(2_000);
    }
    assert_eq!(run.outcome(a), Some(Outcome::DeadlineExceeded));
}

/// 6
#[test]
fn a_hung_worker_that_renews_is_told_that_it_lost_past_the_deadline() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 5, 1);
    let end = run.now + super::LIFE + super::LEASE;
    while run.now < end {
        assert_eq!(run.renew(fence(1, 5), a), "held");
        run.pass(2_000);
    }
    assert_eq!(run.renew(fence(1, 5), a), "lost");
    run.reclaim();
    assert_eq!(run.outcome(a), Some(Outcome::DeadlineExceeded));
}
