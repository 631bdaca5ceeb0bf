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

    /// A worker is seen; those that were not for long are forgotten.
    pub(super) fn register_worker(&mut self, name: u8, value: u8, age: Ms, now: Ms) -> Reply {
        self.workers.insert(name, (now, value));
        self.workers.retain(|_, (seen, _)| *seen + age >= now);
        Reply::one(answer!["registered", Part::Digits(now)])
    }
}
