//! What each rule is for: without it, an invariant breaks, and the shortest way there is told.

use holdfast_model::{
    rules::{Rule, Rules},
    state::{Body, Home, Paper, Spot, Word},
};

use crate::{
    family::PLAIN,
    judge::{
        BOUNDED, CANCEL, CLOCK, FENCED, ID_RULE, NAMED, NOTHING_LOST, ORDER, OUTAGE, OWNED,
        REPEATABLE, SUSPECTS,
    },
    search::{ENDS, search, search_nearest},
    step::{Step, Told::Heard},
    world::{Bounds, UNIT, World},
};

/// A rule, what breaks without it, and where that is seen.
struct Taken {
    rule: Rule,
    breaks: &'static str,
    bounds: Bounds,
}

const LATE: Bounds = Bounds { late: true, ..PLAIN };
const TWO_WORKERS: Bounds = Bounds { workers: 2, ..PLAIN };
const TWO_IDS: Bounds = Bounds { ids: 2, slots: 2, ..PLAIN };
const TWO_SUSPECTS: Bounds =
    Bounds { suspects: true, attempts: 4, max_lapses: 4, life: 3 * UNIT, ..TWO_IDS };
const AGAIN: Bounds = Bounds { generations: 2, ..PLAIN };
const ONE_LAPSE: Bounds = Bounds { max_lapses: 1, cancels: true, ..PLAIN };
const OPERATED: Bounds = Bounds { operators: true, cancels: true, ..AGAIN };

fn taken_out() -> Vec<Taken> {
    let of = |rule, breaks, bounds| Taken { rule, breaks, bounds };
    vec![
        of(Rule::StaleClaims, OWNED, LATE),
        of(Rule::EmptyClaims, OWNED, LATE),
        of(Rule::RepeatRenews, OWNED, PLAIN),
        of(Rule::RepeatOfHeld, FENCED, LATE),
        of(Rule::SuspectsAlone, SUSPECTS, TWO_SUSPECTS),
        of(Rule::SuspectElsewhere, SUSPECTS, Bounds { slots: 1, behind: 1, ..TWO_SUSPECTS }),
        of(Rule::TrustedClock, CLOCK, Bounds { leaps: true, life: UNIT, ..PLAIN }),
        of(Rule::Order, ORDER, Bounds { ids: 2, ..PLAIN }),
        of(Rule::RenewFence, OWNED, TWO_WORKERS),
        of(Rule::RenewalCap, NOTHING_LOST, Bounds { life: UNIT, ..PLAIN }),
        of(Rule::SettleFence, FENCED, TWO_WORKERS),
        of(
            Rule::SettleGeneration,
            FENCED,
            Bounds { forgets: true, late: true, faults: Some(2), life: 2 * UNIT, ..AGAIN },
        ),
        of(Rule::LastSettle, REPEATABLE, PLAIN),
        of(Rule::FlagSettles, CANCEL, Bounds { cancels: true, ..PLAIN }),
        of(Rule::LapseCount, BOUNDED, ONE_LAPSE),
        of(Rule::FlagFirst, CANCEL, ONE_LAPSE),
        of(Rule::Outage, OUTAGE, PLAIN),
        of(
            Rule::OutageForAll,
            OUTAGE,
            Bounds { reclaimed: 1, faults: Some(1), life: 3 * UNIT, ..TWO_IDS },
        ),
        of(Rule::LowerExpiries, CLOCK, Bounds { leaps: true, ..PLAIN }),
        of(Rule::IdRule, REPEATABLE, PLAIN),
        of(Rule::Digest, ID_RULE, Bounds { other_bytes: true, ..AGAIN }),
        of(Rule::IdRuleFirst, ID_RULE, Bounds { life: UNIT, ..PLAIN }),
        of(Rule::Guard, ID_RULE, AGAIN),
        of(Rule::CancelGeneration, NAMED, Bounds { cancels: true, ..AGAIN }),
        of(Rule::RedriveGeneration, NAMED, Bounds { attempts: 1, generations: 3, ..OPERATED }),
        of(Rule::RedriveClears, CANCEL, Bounds { attempts: 1, ..OPERATED }),
        of(Rule::DueSeen, NAMED, Bounds { operators: true, attempts: 3, ..PLAIN }),
        of(Rule::Versions, NAMED, Bounds { pauses: true, ..PLAIN }),
        of(Rule::SweepGeneration, NOTHING_LOST, Bounds { damaged: true, ..AGAIN }),
    ]
}

/// Where a search begins: with nothing, with two suspects, or with an ended request whose ticket was lost.
fn begin(bounds: &Bounds) -> World {
    let mut world = World::new(bounds);
    if bounds.suspects {
        world.take(&Step::Submit(0, Body(0)), bounds);
        world.take(&Step::Submit(1, Body(0)), bounds);
        let handles: Vec<_> = world.shard.homes.keys().copied().collect();
        for handle in handles {
            // Each lapsed twice, long ago.
            let mut ticket = world.shard.readable(handle.id).expect("its ticket").clone();
            (ticket.attempts, ticket.lapses) = (2, 2);
            let spot = Spot { home: Home::Suspects, till: ticket.deadline };
            world.shard.homes.insert(handle, spot);
            world.shard.tickets.insert(handle.id, Paper::Whole(ticket));
            world.ledger.fates.get_mut(&handle.generation).expect("its fate").lapses = 2;
        }
    }
    if bounds.damaged {
        let submit = Step::Submit(0, Body(0));
        for step in [submit, Step::Claim(0, Heard), Step::Settle(0, 0, Word::Ack, Heard)] {
            world.take(&step, bounds);
        }
        world.shard.tickets.clear();
        world.ledger.fates.clear();
        world.posts.clear();
    }
    world
}

#[test]
fn without_any_one_rule_an_invariant_breaks() {
    let mut survivors = Vec::new();
    println!("| without | breaks | after steps | states | s |\n|---|---|---|---|---|");
    for Taken { rule, breaks, bounds } in taken_out() {
        let bounds = Bounds { rules: Rules::without(rule), ..bounds };
        let found = search_nearest(bounds, &begin(&bounds), false);
        let way = found.broken.first();
        let (broken, steps) = way.map_or(("nothing", 0), |(name, way)| (*name, way.len()));
        let (states, seconds) = (found.states, found.seconds);
        println!("| {rule:?} | {broken} | {steps} | {states} | {seconds:.1} |");
        if std::env::var("HOLDFAST_WAYS").is_ok() {
            way.iter().for_each(|(_, way)| println!("{way:?}"));
        }
        if broken != breaks {
            survivors.push(format!("{rule:?} breaks {broken}, not {breaks}"));
        }
    }
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

/// With the rules in, the same searches find nothing.
#[test]
fn with_all_rules_the_same_searches_end() {
    for Taken { rule, bounds, .. } in taken_out() {
        let found = search(bounds, begin(&bounds), false);
        println!("{rule:?}: {} states, {:.1} s", found.states, found.seconds);
        assert!(found.broken.is_empty(), "{rule:?}: {:?}", found.broken);
    }
}

#[test]
fn without_a_reclaimer_not_everything_ends() {
    let found = search_nearest(Bounds { reclaims: false, ..PLAIN }, &World::new(&PLAIN), true);
    let (name, way) = found.broken.first().expect("a lease that nobody takes back");
    println!("{name}, after {way:?}");
    assert_eq!(*name, ENDS);
}
