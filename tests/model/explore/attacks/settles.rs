//! Settles, cancels, suspects.

use holdfast_model::{
    call::{Call, Claim},
    state::{Home, Outcome, Word},
};

use super::{Run, claim, fence, first, settle};

/// 7
#[test]
fn the_repeat_of_a_retry_is_fenced_by_a_later_settle() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    assert_eq!(run.settle(fence(1, 1), a, Word::Retry), "ok");
    assert_eq!(run.in_vain(&settle(fence(1, 1), a, Word::Retry)), "already");
    run.pass(5_001);
    assert_eq!(run.claim(2, 1, 1), [a]);
    assert_eq!(run.settle(fence(2, 1), a, Word::Retry), "ok");
    assert_eq!(run.in_vain(&settle(fence(1, 1), a, Word::Retry)), "fenced");
}

/// 8
#[test]
fn the_repeat_of_an_ack_after_the_sweep_is_gone() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    assert_eq!(run.settle(fence(1, 1), a, Word::Ack), "ok");
    run.now += 700_001;
    run.call(&Call::Sweep { limit: 128, age: 600_000 });
    assert_eq!(run.in_vain(&settle(fence(1, 1), a, Word::Ack)), "gone");
}

/// 9, the scripts' part
#[test]
fn a_lease_that_is_settled_is_lost_to_renewal_and_its_repeat_is_told() {
    let mut run = Run::new();
    let a = run.submit(0);
    run.claim(1, 1, 1);
    assert_eq!(run.settle(fence(1, 1), a, Word::Ack), "ok");
    assert_eq!(run.renew(fence(1, 1), a), "lost");
    assert_eq!(run.in_vain(&settle(fence(1, 1), a, Word::Ack)), "already");
}

/// 10
#[test]
fn what_was_cancelled_while_it_ran_is_cancelled_unless_its_answer_comes_first() {
    for (word, outcome) in [
        (Some(Word::Retry), Outcome::Cancelled),
        (Some(Word::Release), Outcome::Cancelled),
        (None, Outcome::Cancelled),
        (Some(Word::Ack), Outcome::Answered),
    ] {
        let mut run = Run::new();
        let a = run.submit(0);
        run.claim(1, 1, 1);
        assert_eq!(first(&run.call(&Call::Cancel(vec![a]))), "asked");
        match word {
            Some(word) => assert_ne!(run.settle(fence(1, 1), a, word), "fenced"),
            None => run.lapse(),
        }
        assert_eq!(run.outcome(a), Some(outcome));
    }
}

/// 11
#[test]
fn a_flagged_lease_at_its_last_lapse_is_cancelled() {
    let mut run = Run::new();
    let a = run.submit(0);
    for call in 1..=5 {
        assert_eq!(run.claim(1, call, 1), [a]);
        if call == 5 {
            run.call(&Call::Cancel(vec![a]));
        }
        run.lapse();
    }
    assert_eq!(run.outcome(a), Some(Outcome::Cancelled));
}

/// 12 and 13: a killer and 63 innocents with one deadline; `watched`: whether the reclaimer survives its worker.
fn killed(watched: bool) -> (u16, u16) {
    let mut run = Run::new();
    let handles: Vec<_> = (0..64).map(|id| run.submit(id)).collect();
    let killer = handles[17];
    run.claim(2, 1, 1);
    assert_eq!(run.settle(fence(2, 1), handles[0], Word::Release), "ok");
    run.reclaim();
    let (mut call, mut most) = (0, 0);
    while run.outcome(killer).is_none() {
        call += 1;
        let got = run.claim(1, call, 64);
        if got.contains(&killer) {
            if watched {
                run.lapse();
            } else {
                run.now += LONG;
                run.reclaim();
                run.pass(super::LEASE);
            }
        } else {
            for one in got {
                run.settle(fence(1, call), one, Word::Ack);
            }
        }
        let innocent = handles.iter().filter(|one| **one != killer);
        let lapses =
            |one: &_| run.state.readable(*one).map_or(0, |ticket| ticket.lapses + ticket.forgiven);
        most = most.max(innocent.map(|one| lapses(&one.id)).max().unwrap_or(0));
        assert!(call < 200, "the killer is never stopped");
    }
    assert_eq!(run.outcome(killer), Some(Outcome::KilledWorkers));
    (run.state.records[&killer.id].lapses + run.state.records[&killer.id].forgiven, most)
}

const LONG: u64 = 3 * super::LEASE;

/// 12
#[test]
fn a_killer_takes_at_most_three_lapses_of_each_innocent() {
    let (killer, innocent) = killed(true);
    assert_eq!(killer, 5);
    assert!(innocent <= 3, "{innocent}");
}

/// 13: its lapses are forgiven, of which there may be four times as many.
#[test]
fn a_killer_that_takes_the_reclaimer_along_is_stopped_too() {
    let (killer, innocent) = killed(false);
    assert_eq!(killer, 20);
    assert!(innocent <= 3, "{innocent}");
}

/// 14, within one shard
#[test]
fn two_suspects_are_never_leased_together() {
    let mut run = Run::new();
    let (a, b) = (run.submit(0), run.submit(1));
    for call in 1..=2 {
        assert_eq!(run.claim(1, call, 2).len(), 2);
        run.lapse();
    }
    assert_eq!((run.home(a), run.home(b)), (Home::Suspects, Home::Suspects));
    assert_eq!(run.claim(1, 3, 2), [a]);
    assert!(run.claim(2, 1, 2).is_empty());
    assert_eq!(run.settle(fence(1, 3), a, Word::Ack), "ok");
    assert_eq!(run.claim(2, 2, 2), [b]);
}

/// 14, the caller's word for what it holds in another shard
#[test]
fn who_holds_a_suspect_elsewhere_is_leased_none() {
    let mut run = Run::new();
    let a = run.submit(0);
    for call in 1..=2 {
        assert_eq!(run.claim(1, call, 1), [a]);
        run.lapse();
    }
    let Call::Claim(ask) = claim(1, 3, 1) else { panic!("a claim") };
    let elsewhere = Call::Claim(Claim { may_suspect: false, ..ask });
    assert_eq!(crate::step::leases(&run.call(&elsewhere)).count(), 0);
    assert_eq!(run.home(a), Home::Suspects);
    assert_eq!(run.claim(2, 1, 1), [a], "who holds none is");
}

/// 23, the scripts' part: halving is the settler's
#[test]
fn a_group_that_fails_is_settled_without_the_one_that_makes_it_fail() {
    let mut run = Run::new();
    let handles: Vec<_> = (0..64).map(|id| run.submit(id)).collect();
    assert_eq!(run.claim(1, 1, 64), handles);
    let group = |of: &[_]| {
        let rows = of.iter().map(|one| match settle(fence(1, 1), *one, Word::Ack) {
            Call::Settle(mut rows) => rows.remove(0),
            other => panic!("{other:?}"),
        });
        Call::Settle(rows.collect())
    };
    let poison = handles[41];
    let fails = Call::Spoiled { call: Box::new(group(&handles)), way: 0 };
    run.in_vain(&fails);
    for half in [&handles[..41], &handles[42..]] {
        assert!(run.call(&group(half)).words().all(|word| word == "ok"));
    }
    assert_eq!(run.settle(fence(1, 1), poison, Word::Bury), "ok");
    assert!(run.state.leases().is_empty(), "nothing is left to lapse");
    assert_eq!(run.outcome(poison), Some(Outcome::GaveUp));
}
