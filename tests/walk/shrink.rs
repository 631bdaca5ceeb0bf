//! The shortest sequence that still parts: steps are left out as long as model and server part without them.

use std::time::{Duration, Instant};

use crate::{
    server::Server,
    stage::{Stage, Tally},
    walk::{Parted, Step, What, make},
};

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Leaves out what is not needed: first by halves, at last one by one, until none of them can be missed. A step whose time
/// decides may be missed in one round and not in another.
pub(crate) fn shortest(server: &mut Server, mut parted: Box<Parted>) -> Box<Parted> {
    let (began, mut size) = (Instant::now(), parted.steps.len() / 2);
    while size > 0 && began.elapsed() < LIMIT {
        let left_out = leave_out(server, &mut parted, size);
        size = if size == 1 && left_out { 1 } else { size / 2 };
    }
    parted
}

/// Leaves out so many steps at once wherever it can. Says whether it could.
fn leave_out(server: &mut Server, parted: &mut Parted, size: usize) -> bool {
    let (mut start, before) = (0, parted.steps.len());
    while start < parted.steps.len() {
        let kept = parted.steps.iter().enumerate();
        let kept = kept.filter(|(at, _)| !(start..start + size).contains(at));
        let steps: Vec<Step> = kept.map(|(_, step)| step.clone()).collect();
        match again(server, &steps) {
            Some((made, why)) => {
                parted.steps = steps[..made].to_vec();
                parted.why = why;
            }
            None => start += size,
        }
    }
    parted.steps.len() < before
}

/// Makes these steps on a new shard. Where both part: how many were made, and why.
fn again(server: &mut Server, steps: &[Step]) -> Option<(usize, String)> {
    let mut tally = Tally::default();
    let mut stage = Stage::new(server, &mut tally);
    for (made, step) in steps.iter().enumerate() {
        let by = stage.server.now().cast_signed() - step.at.cast_signed();
        if let Err(why) = make(&mut stage, &moved(&step.what, by)) {
            return Some((made + 1, why));
        }
    }
    None
}

/// The same step, drawn later.
fn moved(what: &What, by: i64) -> What {
    match what {
        What::Call(call, fault) => {
            let mut call = call.clone();
            call.pass(-by);
            What::Call(call, *fault)
        }
        What::Event(event) => What::Event(event.later(by)),
        What::Release => What::Release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        scripts::Texts,
        walk::{Plan, walk},
        world::Slant,
    };

    #[test]
    fn what_parts_is_told_in_a_few_steps_that_still_part() {
        let mut server = Server::start(false);
        let put = "redis.call('HMGET', keys.leased)\n    redis.call('ZADD', keys.leased, 'XX', unpack(till))";
        let find = "redis.call('ZADD', keys.leased, 'XX', unpack(till))";
        // A repeat of a claim that leased something fails: a policy, a submit and two claims show it.
        let texts = Texts::shipped().with("claim.lua", find, put).expect("it stands there once");
        server.load_one(&texts, "claim").expect("it is Lua");
        let parts = |server: &mut Server, seed| {
            let plan = Plan { seed, calls: 60, favourite: Some("claim"), slant: Some(Slant::Even) };
            walk(server, &mut Tally::default(), plan).err()
        };
        let parted = (0..50).find_map(|seed| parts(&mut server, seed)).expect("a walk parts");
        let parted = shortest(&mut server, parted);
        assert!((3..=6).contains(&parted.steps.len()), "{parted}");
        assert!(again(&mut server, &parted.steps).is_some(), "{parted}");
    }
}
