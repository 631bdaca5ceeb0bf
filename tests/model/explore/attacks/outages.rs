//! Outages, a Redis that forgets, a clock that steps.

use holdfast_model::{
    call::Call,
    state::{Outcome, Word},
};

use super::{LEASE, Run, claim, fence, first, submit};

/// 15
#[test]
fn an_outage_of_two_leases_is_charged_to_nobody() {
    let mut run = Run::new();
    let handles: Vec<_> = (0..60).map(|id| run.submit(id)).collect();
    assert_eq!(run.claim(1, 1, 60).len(), 60);
    run.reclaim();
    run.now += 2 * LEASE;
    for _ in 0..6 {
        run.call(&Call::Reclaim { limit: 10, named: Vec::new() });
        run.now += 500;
    }
    assert!(run.state.leases().is_empty());
    assert!(handles.iter().all(|handle| run.lapses(*handle) == 0));
}

/// 16
#[test]
fn an_outage_in_which_leases_end_is_not_charged() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    run.now += LEASE / 4;
    run.reclaim();
    run.now += LEASE * 4 / 5;
    run.reclaim();
    assert_eq!((run.lapses(a), run.state.leases().len()), (0, 0));
}

/// 21
#[test]
fn the_answer_of_a_forgotten_generation_is_never_its_successors() {
    let mut run = Run::new();
    let disk = run.state.clone();
    let old = run.submit(0);
    assert_eq!(run.claim(1, 5, 1), [old]);
    run.state = disk;
    let new = run.submit(0);
    assert_eq!(run.claim(1, 5, 1), [new], "the late claim finds its number forgotten");
    assert_eq!(run.in_vain(&super::settle(fence(1, 5), old, Word::Ack)), "gone");
    assert_eq!(run.outcome(new), None);
}

/// 22
#[test]
fn the_owner_of_a_forgotten_claim_is_fenced() {
    let mut run = Run::new();
    let a = run.submit(0);
    let disk = run.state.clone();
    run.claim(1, 1, 1);
    run.state = disk;
    assert_eq!(run.renew(fence(1, 1), a), "lost");
    assert_eq!(run.in_vain(&super::settle(fence(1, 1), a, Word::Ack)), "fenced");
    assert_eq!(run.claim(2, 1, 1), [a]);
    assert_eq!(run.settle(fence(2, 1), a, Word::Ack), "ok");
    assert_eq!(run.outcome(a), Some(Outcome::Answered));
}

/// 22, of an ack
#[test]
fn the_owner_of_a_forgotten_ack_may_settle_again() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    let disk = run.state.clone();
    assert_eq!(run.settle(fence(1, 1), a, Word::Ack), "ok");
    run.state = disk;
    run.lapse();
    assert_eq!(run.in_vain(&super::settle(fence(1, 1), a, Word::Ack)), "fenced");
    assert_eq!(run.claim(2, 1, 1), [a]);
    assert_eq!(run.settle(fence(2, 1), a, Word::Ack), "ok");
}

/// 26
#[test]
fn when_the_clock_went_back_a_dead_workers_lease_returns_in_time() {
    const HOUR: u64 = 3_600_000;
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    run.reclaim();
    run.now -= HOUR;
    run.reclaim();
    run.pass(LEASE + 2_000);
    assert_eq!(run.claim(2, 1, 1), [a]);
    // Forward again: what is late is neither ended nor leased while the reclaimer rests.
    run.now += 2 * HOUR;
    let b = run.submit(1);
    run.now += super::LIFE + 1;
    let holdfast_model::call::Call::Claim(trusted) = claim(3, 1, 1) else { panic!("a claim") };
    let rests = holdfast_model::call::Claim { trusted_until: run.now - 1, ..trusted };
    run.call(&Call::Claim(rests));
    assert_eq!(run.outcome(b), None);
}

/// 17
#[test]
fn the_repeat_of_a_submit_is_known_whatever_is_the_matter() {
    let mut run = Run::new();
    let item = run.item(0);
    let a = run.accepted(&item);
    run.claim(1, 1, 1);
    run.settle(fence(1, 1), a, Word::Ack);
    let rows = vec![("capacity", Some(0))];
    run.call(&Call::Policy { schema: 1, write: true, rows });
    assert_eq!(first(&run.call(&submit(&item))), "known", "in a full queue");
    run.now += super::LIFE + 1;
    assert_eq!(first(&run.call(&submit(&item))), "known", "after its deadline");
}
