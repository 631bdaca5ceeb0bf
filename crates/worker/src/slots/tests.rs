use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::breaker::Sign;

const POLL: Duration = Duration::from_secs(1);

/// Queues with so many slots each, none of them with a breaker.
fn slots(queues: &[usize], queue_of: &[usize]) -> (Slots, Instant) {
    let now = Instant::now();
    let shares = queues.iter().map(|slots| Share { slots: *slots, breaker: false });
    (Slots::new(shares, queue_of, now), now)
}

impl Slots {
    fn over(&mut self, shard: usize, was_suspect: bool) {
        self.finished(shard, was_suspect, false);
    }

    /// A call ends, and is settled at once.
    fn ends(
        &mut self,
        shard: usize,
        call: Option<Call>,
        (sign, at): (Sign, Instant),
        rng: &mut StdRng,
    ) -> bool {
        let less = self.call_over(shard, call.unwrap(), Over { sign: Some(sign), at }, rng);
        self.finished(shard, false, true);
        less
    }
}

/// Answers an offer: so many leases, and no more to be had.
fn brought(leases: usize) -> Brought {
    Brought { leases, ..Brought::default() }
}

fn frees(offers: &[Offer]) -> Vec<(usize, usize)> {
    offers.iter().map(|offer| (offer.shard, offer.free)).collect()
}

#[test]
fn full_slots_claim_nothing_and_a_freed_one_asks_the_shard_that_had_more() {
    let (mut slots, now) = slots(&[2], &[0]);
    assert_eq!(frees(&slots.offer(now)), [(0, 2)]);
    assert_eq!(slots.offer(now), [], "one claim in flight a shard");
    slots.answered(0, Brought { more: true, ..brought(2) }, now, POLL);
    assert_eq!(slots.offer(now + 9 * POLL), [], "no slot is free");
    assert_eq!(slots.next_look(now), None);
    slots.over(0, false);
    assert_eq!(frees(&slots.offer(now)), [(0, 1)]);
}

#[test]
fn an_empty_shard_is_left_alone_until_the_poll_the_bell_or_a_due_time() {
    let (mut slots, now) = slots(&[4], &[0]);
    slots.offer(now);
    slots.answered(0, brought(0), now, POLL);
    assert_eq!(slots.offer(now), []);
    assert_eq!(slots.next_look(now), Some(now + POLL));
    assert_eq!(frees(&slots.offer(now + POLL)), [(0, 4)]);

    let due = now + POLL / 2;
    slots.answered(0, Brought { next_due: Some(due), ..brought(0) }, now, POLL);
    assert_eq!(slots.next_look(now), Some(due));
    assert_eq!(slots.offer(due - POLL / 4), []);
    assert!(slots.rang(0, now));
    assert_eq!(frees(&slots.offer(due - POLL / 4)), [(0, 4)]);
}

#[test]
fn of_several_shards_those_that_the_clock_calls_for_are_looked_at_together_and_claimed_once_they_hold_something()
 {
    let (mut slots, now) = slots(&[4, 4, 4], &[0, 1, 2]);
    assert!(slots.looks(now, now + POLL).is_empty(), "all are wanted at the start");
    slots.offer(now);
    for (shard, poll) in [(0, POLL), (1, POLL + POLL / 2), (2, 3 * POLL)] {
        slots.answered(shard, brought(0), now, poll);
    }
    assert!(slots.looks(now + POLL / 2, now + 9 * POLL).is_empty(), "none is due");
    assert_eq!(
        slots.looks(now + POLL, now + 5 * POLL),
        [0, 1],
        "one is due, and one would be soon"
    );
    assert_eq!(slots.offer(now + POLL), [], "nothing is claimed blindly");
    assert_eq!(slots.next_look(now), Some(now + 3 * POLL));
    slots.found(1);
    assert_eq!(frees(&slots.offer(now + POLL)), [(1, 4)]);
    slots.answered(1, brought(0), now + POLL, 4 * POLL);
    slots.rang(2, now + POLL);
    assert_eq!(frees(&slots.offer(now + POLL)), [(2, 4)], "what rang is not looked at first");
    assert_eq!(slots.looks(now + 5 * POLL, now + 9 * POLL), [0, 1]);
}

#[test]
fn something_due_later_than_the_poll_does_not_delay_it() {
    let (mut slots, now) = slots(&[1], &[0]);
    slots.offer(now);
    slots.answered(0, Brought { next_due: Some(now + 9 * POLL), ..brought(0) }, now, POLL);
    assert_eq!(slots.next_look(now), Some(now + POLL));
}

#[test]
fn free_slots_are_shared_out_starting_one_shard_further_each_time() {
    let (mut slots, now) = slots(&[5], &[0, 0, 0]);
    let mut first = Vec::new();
    for round in 0..6 {
        let offers = slots.offer(now + round * 10 * POLL);
        assert_eq!(offers.iter().map(|offer| offer.free).sum::<usize>(), 5);
        assert_eq!(offers.len(), 3);
        first.push(offers[0].shard);
        for offer in offers {
            slots.answered(offer.shard, brought(0), now, POLL);
        }
    }
    assert_eq!(first, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_single_slot_reaches_every_shard_in_turn() {
    let (mut slots, now) = slots(&[1], &[0, 0, 0]);
    let mut asked = Vec::new();
    for _ in 0..3 {
        let offers = slots.offer(now);
        assert_eq!(offers.len(), 1);
        asked.push(offers[0].shard);
        slots.answered(offers[0].shard, brought(0), now, POLL);
    }
    asked.sort();
    assert_eq!(asked, [0, 1, 2]);
}

#[test]
fn a_queue_whose_target_hangs_fills_its_own_slots_and_no_others() {
    let (mut slots, now) = slots(&[2, 8], &[0, 1]);
    assert_eq!(frees(&slots.offer(now)), [(0, 2), (1, 8)]);
    slots.answered(0, Brought { more: true, ..brought(2) }, now, POLL);
    slots.answered(1, brought(0), now, POLL);
    assert_eq!(slots.offer(now), []);
    assert!(!slots.has_room(0, now));
    assert!(!slots.rang(0, now), "put back: there is no room in this queue");
    assert!(slots.rang(1, now));
    slots.over(0, false);
    assert_eq!(frees(&slots.offer(now)), [(1, 8), (0, 1)]);
}

#[test]
fn a_token_that_comes_too_late_is_put_back_unless_a_claim_is_under_way() {
    let (mut slots, now) = slots(&[1], &[0, 0]);
    slots.offer(now);
    assert!(slots.rang(0, now), "its claim has the slot");
    assert!(!slots.rang(1, now));
    slots.answered(0, brought(1), now, POLL);
    assert!(!slots.rang(0, now));
}

#[test]
fn a_token_during_a_claim_makes_for_another_one() {
    let (mut slots, now) = slots(&[4], &[0]);
    slots.offer(now);
    assert!(slots.rang(0, now));
    slots.answered(0, brought(0), now, POLL);
    assert_eq!(frees(&slots.offer(now)), [(0, 4)]);
}

#[test]
fn a_bell_is_listened_to_only_where_it_would_be_news() {
    let (mut slots, now) = slots(&[2], &[0, 0]);
    slots.offer(now);
    assert!(!slots.listens(0, now), "its claim is under way");
    slots.answered(0, brought(0), now, POLL);
    assert!(slots.listens(0, now));
    slots.answered(1, Brought { more: true, ..brought(1) }, now, POLL);
    assert!(slots.listens(0, now) && !slots.listens(1, now), "it is known to have more");
    slots.offer(now);
    slots.answered(1, brought(1), now, POLL);
    assert!(!slots.listens(0, now) && !slots.listens(1, now), "no slot is free");
}

#[test]
fn one_claim_at_a_time_may_bring_a_suspect_and_none_while_one_is_held() {
    let (mut slots, now) = slots(&[8], &[0, 0]);
    let may = |offers: Vec<Offer>| -> Vec<bool> {
        offers.iter().map(|offer| offer.may_take_suspect).collect()
    };
    assert_eq!(may(slots.offer(now)), [true, false]);
    slots.answered(1, brought(0), now, POLL);
    slots.answered(0, Brought { suspects: 1, ..brought(1) }, now, POLL);
    assert_eq!(may(slots.offer(now + POLL)), [false, false]);
    slots.answered(0, brought(0), now, POLL);
    slots.answered(1, brought(0), now, POLL);
    assert_eq!(slots.offer(now), []);

    slots.over(0, true);
    let after = slots.offer(now);
    assert_eq!(after.len(), 2, "both may have suspects that they could not give before");
    assert_eq!(may(after).iter().filter(|may| **may).count(), 1);
}

#[test]
fn an_ordinary_dispatch_that_ends_frees_no_suspect() {
    let (mut slots, now) = slots(&[8], &[0]);
    slots.offer(now);
    slots.answered(0, Brought { suspects: 1, ..brought(2) }, now, POLL);
    slots.over(0, false);
    assert!(!slots.offer(now + POLL)[0].may_take_suspect);
}

#[test]
fn no_offer_is_larger_than_a_call_may_be() {
    let (mut slots, now) = slots(&[1000], &[0]);
    assert_eq!(frees(&slots.offer(now)), [(0, MAX_ITEMS)]);
    slots.answered(0, Brought { more: true, ..brought(MAX_ITEMS) }, now, POLL);
    assert_eq!(frees(&slots.offer(now)), [(0, MAX_ITEMS)]);
}

#[test]
fn slots_are_neither_lost_nor_invented() {
    let (mut slots, now) = slots(&[5, 7], &[0, 0, 1]);
    let mut running: Vec<usize> = Vec::new();
    for step in 0..500_usize {
        for offer in slots.offer(now + POLL * step as u32) {
            let leases = (step * 7 + offer.shard) % (offer.free + 1);
            running.extend(std::iter::repeat_n(offer.shard, leases));
            slots.answered(offer.shard, brought(leases), now, POLL);
        }
        let of_first = running.iter().filter(|shard| **shard < 2).count();
        assert_eq!(slots.queues[0].room(now) + of_first, 5);
        assert_eq!(slots.queues[1].room(now) + running.len() - of_first, 7);
        for _ in 0..step % 4 {
            if let Some(shard) = running.pop() {
                slots.over(shard, false);
            }
        }
    }
}

#[test]
fn a_queue_whose_target_refuses_is_asked_for_a_probe_and_nothing_else() {
    let now = Instant::now();
    let share = Share { slots: 8, breaker: true };
    let mut slots = Slots::new([share, share].into_iter(), &[0, 0, 1], now);
    let mut rng = StdRng::seed_from_u64(2);
    let busy = Sign::Busy { reason: "429", asked: None };
    assert_eq!(frees(&slots.offer(now)), [(0, 4), (1, 4), (2, 8)]);
    slots.answered(0, Brought { more: true, ..brought(4) }, now, POLL);
    slots.answered(1, Brought { more: true, ..brought(4) }, now, POLL);
    slots.answered(2, brought(0), now, POLL);
    let calls: Vec<_> = (0..8).map(|at| (at / 4, slots.begin(at / 4, now))).collect();
    let mut less = 0;
    for (shard, call) in calls {
        less += usize::from(slots.ends(shard, call, (busy, now), &mut rng));
    }
    assert_eq!(less, 2, "halved, then opened");
    assert_eq!(slots.offer(now), []);
    assert!(!slots.rang(0, now) && !slots.listens(1, now) && slots.listens(2, now));
    let look = slots.next_look(now).unwrap();
    assert!(look < now + POLL, "when a probe may go, before any poll");

    let probe = slots.offer(look);
    assert_eq!(probe.len(), 1);
    assert_eq!(probe[0].free, 1, "of two shards that have work, one is asked");
    let shard = probe[0].shard;
    slots.answered(shard, brought(0), look, POLL);
    let other = slots.offer(look);
    assert_eq!(frees(&other), [(1 - shard, 1)], "nothing came of it: the other is asked");
    slots.answered(1 - shard, brought(1), look, POLL);
    let call = slots.begin(1 - shard, look);
    assert_eq!(slots.offer(look), []);
    let over = Over { sign: Some(Sign::Answered), at: look };
    slots.call_over(1 - shard, call.unwrap(), over, &mut rng);
    assert_eq!(slots.queues[0].room(look), 2, "it was answered, and is still to be settled");
    slots.finished(1 - shard, false, true);
    assert_eq!(slots.queues[0].room(look), 2, "its slot alone has become free");
}

#[test]
fn a_claim_waits_at_the_bell_of_an_only_shard_for_one_slot_until_that_is_looked_at_anyway() {
    let (mut alone, now) = slots(&[4], &[0]);
    assert_eq!(alone.offer_at_bell(now), None, "it is due at once");
    alone.offer(now);
    assert_eq!(alone.offer_at_bell(now), None, "one claim in flight a shard");
    alone.answered(0, brought(3), now, POLL);
    let (offer, until) = alone.offer_at_bell(now).unwrap();
    assert_eq!((offer.free, until), (1, now + POLL));
    assert!(!alone.calls_back(now) && alone.offer_at_bell(now).is_none());
    alone.answered(0, brought(1), now, POLL);
    assert_eq!(alone.offer_at_bell(now), None, "no slot is free");
    alone.over(0, false);
    assert!(alone.offer_at_bell(now).is_some());

    let (mut two, now) = slots(&[4, 4], &[0, 1]);
    for offer in two.offer(now) {
        two.answered(offer.shard, brought(0), now, POLL);
    }
    assert_eq!(two.offer_at_bell(now), None, "of two shards the bell tells too late which rang");
}

#[test]
fn a_claim_that_waits_is_called_back_once_it_may_take_what_it_was_denied() {
    let (mut slots, now) = slots(&[4], &[0]);
    slots.offer(now);
    slots.answered(0, Brought { suspects: 1, ..brought(2) }, now, POLL);
    let (offer, _) = slots.offer_at_bell(now).unwrap();
    assert!(!offer.may_take_suspect);
    slots.over(0, false);
    assert!(!slots.calls_back(now));
    slots.over(0, true);
    assert!(slots.calls_back(now));
    slots.answered(0, brought(0), now, POLL);
    let offers = slots.offer(now);
    assert_eq!((frees(&offers), offers[0].may_take_suspect), (vec![(0, 4)], true));
}

#[test]
fn a_claim_that_waits_is_called_back_once_its_target_refuses_calls() {
    let now = Instant::now();
    let share = Share { slots: 8, breaker: true };
    let mut slots = Slots::new([share].into_iter(), &[0], now);
    slots.offer(now);
    slots.answered(0, brought(7), now, POLL);
    let calls: Vec<_> = (0..7).map(|_| slots.begin(0, now)).collect();
    assert!(slots.offer_at_bell(now).is_some() && !slots.calls_back(now));
    let sign = Sign::Unreachable { reason: "connect" };
    for call in calls {
        slots.ends(0, call, (sign, now + POLL), &mut StdRng::seed_from_u64(1));
    }
    assert!(slots.calls_back(now + POLL));
}
