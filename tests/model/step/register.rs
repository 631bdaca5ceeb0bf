use crate::{
    reply::{Part, Reply, answer},
    state::{Ms, State},
};

impl State {
    /// A queue's number of shards never changes once it is used.
    pub(super) fn register_queue(&mut self, name: u8, value: u8, now: Ms) -> Reply {
        match *self.queues.entry(name).or_insert(value) {
            kept if kept == value => Reply::one(answer!["registered", Part::Digits(now)]),
            kept => Reply::one(answer!["differs", Part::Queue(kept)]),
        }
    }

    /// A worker is seen, unless it has ended; those that were not for long are forgotten.
    pub(super) fn register_worker(&mut self, name: u8, value: u8, age: Ms, now: Ms) -> Reply {
        let has_ended = self.ended_workers.contains_key(&name);
        if !has_ended {
            self.workers.insert(name, (now, value));
        }
        self.forget_workers(age, now);
        let word = if has_ended { "ended" } else { "registered" };
        Reply::one(answer![word, Part::Digits(now)])
    }

    /// A worker is not to be seen any more, whatever of it arrives later.
    pub(super) fn end_worker(&mut self, name: u8, age: Ms, now: Ms) -> Reply {
        self.workers.remove(&name);
        self.ended_workers.insert(name, now);
        self.forget_workers(age, now);
        Reply::one(answer!["ended", Part::Digits(now)])
    }

    fn forget_workers(&mut self, age: Ms, now: Ms) {
        self.workers.retain(|_, (seen, _)| *seen + age >= now);
        self.ended_workers.retain(|_, ended| *ended + age >= now);
    }
}
