//! Which steps there are from a world.

use holdfast_model::state::{Body, Generation, Home, Id, Outcome, Word};

use crate::{
    step::{
        Step,
        Told::{self, Heard, Lost},
    },
    world::{Bounds, Leap, NOW, Wish, World, id},
};

impl World {
    /// Every step that can be taken from here; a few of them may turn out to be none.
    pub(crate) fn steps(&self, bounds: &Bounds) -> Vec<Step> {
        let mut steps = Vec::new();
        self.steps_of_callers(bounds, &mut steps);
        for worker in 0..self.workers.len() {
            self.steps_of_worker(worker, bounds, &mut steps);
        }
        steps.extend(self.stray.map(|_| Step::StrayClaim));
        self.steps_of_reclaimers(&mut steps);
        steps.push(Step::Tick);
        if bounds.leaps && self.leap.is_none() {
            steps.extend([Step::Clock(Leap::Back), Step::Clock(Leap::Forward)]);
        }
        if bounds.forgets && !self.forgot && self.faults != Some(0) {
            steps.push(if self.disk.is_some() { Step::Forget } else { Step::Sync });
        }
        steps
    }

    /// What a reclaimer does, where it would find something to do.
    fn steps_of_reclaimers(&self, steps: &mut Vec<Step>) {
        let over = |wanted: &dyn Fn(Home) -> bool| {
            let mut homes = self.shard.homes.iter().map(|(_, spot)| spot);
            homes.any(|spot| wanted(spot.home) && spot.till <= NOW)
        };
        let idle = self.shard.meta.beat == Some(NOW) && self.leap.is_none();
        if !idle || over(&|home| matches!(home, Home::Leased(_))) {
            steps.push(Step::Reclaim);
        }
        steps.extend(over(&|home| home == Home::Delayed).then_some(Step::Promote));
        // After a leap forward, nothing is expired or swept for a while.
        if self.leap != Some(Leap::Forward) {
            let waits = |home| matches!(home, Home::Pending | Home::Suspects);
            steps.extend(over(&waits).then_some(Step::Expire));
            steps.extend(over(&Home::is_end).then_some(Step::Sweep));
        }
    }

    fn steps_of_callers(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let more = |id: Id| {
            let fates = self.ledger.fates.iter().filter(|(_, fate)| fate.handle.id == id);
            let named = self
                .posts
                .iter()
                .filter(|post| post.id == id && !self.ledger.fates.contains_key(&post.generation));
            let all = bounds.generations * u32::from(bounds.ids);
            self.generations < all && fates.count() + named.count() < bounds.generations as usize
        };
        let used = |number: u8| {
            let fates = self.ledger.fates.iter().map(|(_, fate)| fate.handle.id);
            fates.chain(self.posts.iter().map(|post| post.id)).any(|it| it == id(number))
        };
        // Ids are alike: the first that is used is the first.
        for number in (0..bounds.ids).filter(|number| *number == 0 || used(number - 1)) {
            if more(id(number)) {
                steps.push(Step::Submit(number, Body(0)));
                steps.extend(bounds.other_bytes.then_some(Step::Submit(number, Body(4))));
            }
        }
        steps.extend((0..self.posts.len()).map(Step::Resubmit));
        if bounds.cancels {
            // Of each generation, also of those that are no more: that is a late copy.
            steps.extend(self.ledger.fates.iter().map(|(_, fate)| Step::Cancel(fate.handle)));
        }
        steps.extend(self.wishes.iter().cloned().map(Step::Wish));
        if bounds.pauses {
            let kept = self.shard.meta.overrides.get("paused").map_or(0, |kept| kept.version);
            let on = self.shard.overruled("paused").is_none();
            steps.extend((kept < 3).then_some(Step::Wish(Wish::Pause(kept, on))));
        }
        if !bounds.operators {
            return;
        }
        let new = Generation(self.generations + 1);
        for (_, fate) in self.ledger.fates.iter().filter(|(_, fate)| more(fate.handle.id)) {
            // Also where another operator was faster.
            if fate.record.is_some_and(|(outcome, _)| outcome >= Outcome::GaveUp) {
                steps.push(Step::Wish(Wish::Redrive(fate.handle, new)));
            }
        }
        for (due, handle) in self.shard.line(Home::Delayed) {
            steps.push(Step::Wish(Wish::RetryNow(handle, due)));
        }
    }

    fn steps_of_worker(&self, at: usize, bounds: &Bounds, steps: &mut Vec<Step>) {
        let worker = &self.workers[at];
        let replies: &[Told] = if self.faults == Some(0) { &[Heard] } else { &[Heard, Lost] };
        if self.free(at, bounds) > 0 || worker.asking {
            steps.extend(replies.iter().map(|reply| Step::Claim(at, *reply)));
        }
        if worker.hands.iter().any(|hand| hand.word.is_none()) {
            steps.extend(replies.iter().map(|reply| Step::Renew(at, *reply)));
        }
        for (number, hand) in worker.hands.iter().enumerate() {
            let words = match hand.word {
                Some(word) => vec![word],
                // All that it says is the same.
                None if self.is_dead(hand) => vec![Word::Ack],
                None if hand.attempts >= bounds.attempts => {
                    vec![Word::Ack, Word::Bury, Word::Release]
                }
                None => vec![Word::Ack, Word::Retry, Word::Release],
            };
            for word in words {
                let step = |reply: &Told| Step::Settle(at, number, word, *reply);
                steps.extend(replies.iter().map(step));
            }
        }
        if self.faults == Some(0) {
            return;
        }
        if bounds.late && worker.call > 0 {
            let row = self.shard.sessions.get(&worker.session).map(|row| row.call);
            let forgotten = row.filter(|call| *call < worker.call);
            let calls = [worker.call, worker.call - 1].into_iter().chain(forgotten);
            steps.extend(calls.map(|call| Step::LateClaim(at, call)));
        }
        if bounds.crashes && (worker.asking || !worker.hands.is_empty()) {
            steps.push(Step::Crash(at));
        }
    }
}
