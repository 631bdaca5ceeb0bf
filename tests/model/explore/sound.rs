//! That bringing worlds in order loses nothing: random runs whose worlds are never brought in order, beside those that
//! stand for them. From both, the same can be reached, and wherever workers only change names, one world stands for both.

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher as _},
};

use holdfast_model::state::{Fence, Session};

use crate::{
    family::PLAIN,
    step::Step,
    world::{Bounds, UNIT, World},
};

const RUNS: u64 = 60;
const STEPS: u64 = 60;

/// All that is brought in order at least once.
const CALLED: Bounds = Bounds {
    workers: 2,
    generations: 2,
    attempts: 3,
    crashes: true,
    late: true,
    other_bytes: true,
    cancels: true,
    operators: true,
    ..PLAIN
};
const RUNS_OF: &[Bounds] = &[
    CALLED,
    Bounds { late: false, behind: 1, ..CALLED },
    Bounds { ids: 2, generations: 1, slots: 2, faults: Some(4), ..CALLED },
    Bounds { forgets: true, life: 3 * UNIT, ..CALLED },
    Bounds { forgets: true, late: false, faults: Some(3), ..CALLED },
    Bounds { leaps: true, life: 3 * UNIT, ..CALLED },
    Bounds { leaps: true, late: false, faults: Some(3), ..CALLED },
];

/// A number that depends on these.
fn drawn(of: impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() as usize
}

impl World {
    fn after(&self, step: &Step, bounds: &Bounds) -> Option<Self> {
        let mut next = self.clone();
        next.take(step, bounds).then_some(next)
    }

    /// What stands for all that can be reached in a step.
    fn reaches(&self, bounds: &Bounds) -> HashSet<Self> {
        let steps = self.steps(bounds).into_iter();
        steps.filter_map(|step| Some(self.after(&step, bounds)?.in_order(bounds))).collect()
    }

    /// The same, but for how its workers and their claims are called.
    fn called_otherwise(mut self) -> Self {
        self.workers.reverse();
        self.each_fence(&mut |fence| Fence {
            session: Session(match fence.session.0 {
                0 => 1,
                1 => 0,
                other => 250 - other,
            }),
            call: 3 * fence.call,
        });
        self
    }
}

#[test]
fn what_is_brought_in_order_reaches_the_same() {
    for (number, bounds) in RUNS_OF.iter().enumerate() {
        let mut longest = 0;
        for run in 0..RUNS {
            let mut world = World::new(bounds);
            for at in 0..STEPS {
                let steps = world.steps(bounds);
                let step = &steps[drawn((number, run, at)) % steps.len()];
                let Some(next) = world.after(step, bounds) else { continue };
                world = next;
                // Names of sessions are used again.
                world.rename();
                let one = world.clone().in_order(bounds);
                assert_eq!(one.clone().in_order(bounds), one, "what is in order stays as it is");
                assert_eq!(one.clone().called_otherwise().in_order(bounds), one, "names differ");
                let (mut left, mut right) = (world.reaches(bounds), one.reaches(bounds));
                left.remove(&one);
                right.remove(&one);
                let differ: Vec<_> = left.symmetric_difference(&right).collect();
                assert!(
                    differ.is_empty(),
                    "{number}, {run}, {at}: {world:#?}\n{one:#?}\nWEG {differ:#?}"
                );
                longest = longest.max(at);
            }
        }
        assert!(longest + 2 > STEPS, "runs end early");
    }
}
