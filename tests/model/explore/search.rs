//! The search: every world that can be reached within the bounds, shortest ways first.

use std::{sync::Arc, time::Instant};

use holdfast_model::state::Paper;
use stateright::{Checker as _, HasDiscoveries, Model, Property};

use crate::{
    judge::INVARIANTS,
    live::Schedule,
    step::Step,
    world::{Bounds, World},
};

/// What the fair schedule must do.
pub(crate) const ENDS: &str = "4 everything ends";

/// A world and its bounds, as the checker takes them.
pub(crate) struct Search {
    bounds: Bounds,
    begin: World,
    schedule: Option<Arc<Schedule>>,
}

/// What a search found.
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
    /// The most rounds that the fair schedule took.
    pub(crate) rounds: u8,
    /// What is broken, and the shortest way there.
    pub(crate) broken: Vec<(&'static str, Vec<Step>)>,
}

impl Model for Search {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin.clone()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong.is_none() {
            steps.extend(world.steps(&self.bounds));
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        if !next.take(&step, &self.bounds) {
            return None;
        }
        next.wrong = next.wrong.or_else(|| next.judge_state(self.bounds.damaged).err());
        let next = next.in_order(&self.bounds);
        // What leads nowhere is no step.
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties: Vec<Property<Self>> =
            vec![Property::always(INVARIANTS[0], |_, world: &World| {
                world.wrong != Some(INVARIANTS[0])
            })];
        macro_rules! each {
            ($($at:literal)+) => { $(properties.push(Property::always(INVARIANTS[$at], |_, world: &World| {
                world.wrong != Some(INVARIANTS[$at])
            }));)+ };
        }
        each!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        properties.push(Property::always(ENDS, |search: &Self, world: &World| {
            search.schedule.as_ref().is_none_or(|schedule| schedule.ends(&world.shard))
        }));
        properties
    }

    fn within_boundary(&self, world: &World) -> bool {
        let within = |paper: &Paper| match paper {
            Paper::Whole(ticket) => ticket.attempts <= self.bounds.attempts,
            Paper::Broken(_) => true,
        };
        world.shard.tickets.iter().all(|(_, paper)| within(paper))
    }
}

/// Searches to the end, or to the first fault.
pub(crate) fn search(bounds: Bounds, begin: World, live: bool) -> Found {
    search_to(bounds, begin, live, None)
}

/// Searches deeper and deeper, so that the first fault is a nearest one.
pub(crate) fn search_nearest(bounds: Bounds, begin: &World, live: bool) -> Found {
    let mut depth = 2;
    loop {
        let found = search_to(bounds, begin.clone(), live, Some(depth));
        if !found.broken.is_empty() || found.depth < depth {
            return found;
        }
        depth += 1;
    }
}

fn search_to(bounds: Bounds, begin: World, live: bool, depth: Option<usize>) -> Found {
    let schedule = live.then(|| Arc::new(Schedule::new(bounds.reclaims, bounds.life)));
    let began = Instant::now();
    let model = Search { bounds, begin, schedule: schedule.clone() };
    // One thread alone finds the shortest ways, and keeps no long ones in memory.
    let checker = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    let checker = match depth {
        Some(depth) => checker.target_max_depth(depth),
        None => checker,
    };
    let checker = checker.spawn_bfs().join();
    let broken = checker.discoveries().into_iter();
    Found {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        seconds: began.elapsed().as_secs_f64(),
        rounds: schedule.map_or(0, |schedule| schedule.longest()),
        broken: broken.map(|(name, path)| (name, path.into_actions())).collect(),
    }
}
