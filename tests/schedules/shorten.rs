//! The shortest story of a fault: leaves out of a plan whatever the same goes wrong without.

use std::collections::BTreeSet;

use crate::{
    fate::Fault,
    plan::{Event, Plan},
    play::Wrong,
};

/// How often a shorter plan is played until it counts as one that goes well: what the roles draw is another each time.
const TRIES: usize = 3;
/// How many plays are played at most.
const MOST: usize = 400;

/// What can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Event(usize),
    /// This request is not submitted.
    Request(u8),
    /// This one of the faults that happened.
    Fault(usize),
}

/// Plays shorter and shorter plans; what the shortest shows.
pub(crate) fn shorten(
    plan: &Plan,
    wrong: Wrong,
    mut play: impl FnMut(&Plan) -> Result<String, Wrong>,
) -> Wrong {
    let (faults, kind) = (wrong.faults.clone(), kind(&wrong));
    let mut parts = parts(plan, faults.len());
    let (mut shortest, mut plays) = (wrong, 0);
    let mut size = parts.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < parts.len() && plays < MOST {
            let mut fewer = parts.clone();
            fewer.drain(at..(at + size).min(parts.len()));
            let shorter = only(plan, &faults, &fewer);
            let again = (0..TRIES).find_map(|_| {
                plays += 1;
                play(&shorter).err().filter(|again| self::kind(again) == kind)
            });
            match again {
                Some(again) => (shortest, parts) = (again, fewer),
                None => at += size,
            }
        }
        size /= 2;
    }
    shortest
}

/// What went wrong, whoever it happened to.
fn kind(wrong: &Wrong) -> String {
    wrong.what.chars().filter(|it| !it.is_ascii_digit()).collect()
}

fn parts(plan: &Plan, faults: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    for (at, (_, event)) in plan.events.iter().enumerate() {
        match event {
            Event::Submit(them) => parts.extend(them.iter().map(|(id, _)| Part::Request(*id))),
            _ => parts.push(Part::Event(at)),
        }
    }
    parts.extend((0..faults).map(Part::Fault));
    parts
}

/// The plan with these parts alone.
fn only(plan: &Plan, faults: &[Fault], parts: &[Part]) -> Plan {
    let mut shorter = plan.clone();
    let all = std::mem::take(&mut shorter.events).into_iter().enumerate();
    shorter.events = all
        .filter_map(|(place, (at, event))| match event {
            Event::Submit(mut them) => {
                them.retain(|(id, _)| parts.contains(&Part::Request(*id)));
                (!them.is_empty()).then_some((at, Event::Submit(them)))
            }
            event => parts.contains(&Part::Event(place)).then_some((at, event)),
        })
        .collect();
    let kept = faults.iter().enumerate().filter(|(at, _)| parts.contains(&Part::Fault(*at)));
    shorter.faults.only = Some(kept.map(|(_, fault)| fault.clone()).collect::<BTreeSet<_>>());
    shorter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Family;

    fn fault(count: u64) -> Fault {
        Fault { of: "w0 settle".to_owned(), count }
    }

    /// Goes wrong where request 3 is submitted, the worker is told to stop, and its second settle fails.
    fn goes_wrong(plan: &Plan) -> bool {
        let submits = |event: &Event| matches!(event, Event::Submit(them) if them.iter().any(|(id, _)| *id == 3));
        let stops = |event: &Event| matches!(event, Event::Stop(_));
        let has = |is: &dyn Fn(&Event) -> bool| plan.events.iter().any(|(_, event)| is(event));
        has(&submits)
            && has(&stops)
            && plan.faults.only.as_ref().is_none_or(|it| it.contains(&fault(2)))
    }

    #[test]
    fn what_the_same_goes_wrong_without_is_left_out() {
        let plan = Plan::draw(Family::Drain, 1);
        assert!(goes_wrong(&plan) && plan.events.len() > 2);
        let wrong = |plan: &Plan| Wrong {
            what: "w0 settles 3".to_owned(),
            story: format!("{:?}", plan.events),
            faults: plan.faults.only.iter().flatten().cloned().collect(),
        };
        let first = Wrong { faults: (1..9).map(fault).collect(), ..wrong(&plan) };
        let mut shortest = plan.clone();
        let found = shorten(&plan, first, |plan| {
            if !goes_wrong(plan) {
                return Ok(String::new());
            }
            shortest = plan.clone();
            Err(wrong(plan))
        });
        assert_eq!(found.faults, [fault(2)]);
        let [(_, Event::Submit(them)), (_, Event::Stop(0))] = shortest.events.as_slice() else {
            panic!("more than is needed: {:?}", shortest.events);
        };
        assert_eq!(them.len(), 1);
    }

    #[test]
    fn another_fault_is_not_the_same() {
        let plan = Plan::draw(Family::Drain, 1);
        let wrong = |what: &str| Wrong { what: what.to_owned(), ..Wrong::default() };
        let found =
            shorten(&plan, wrong("w0 calls without a lease"), |_| Err(wrong("does not end")));
        assert_eq!(found.what, "w0 calls without a lease");
    }
}
