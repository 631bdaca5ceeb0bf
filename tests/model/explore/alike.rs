//! Worlds that differ only in who is called what are one: workers are alike, and of a fence only what it equals and, in
//! one session, what came first can be seen.

use std::cmp::Ordering;

use holdfast_model::state::{Fence, Handle, Ms, Paper, Session, State};

use crate::world::{Ledger, World};

/// What a shard holds of a session: its last claim beside the worker's, that claim's leases, all that run under it, and
/// what it settled last.
type Held = (Option<(Ordering, Vec<Handle>)>, Vec<(Ms, u64, Handle)>, Vec<(Handle, u64)>);

impl World {
    /// Names sessions by their place in an order that does not depend on what they were called, and of a claim's number
    /// only its place among others. Between two that are used there is always one that is not.
    pub(crate) fn rename(&mut self) {
        let mut fences = Vec::new();
        self.each_fence(&mut |fence| {
            fences.push(fence);
            fence
        });
        // Who is gone is met in the order of what it left.
        let left: Vec<Session> = fences.iter().map(|fence| fence.session).collect();
        fences.sort();
        fences.dedup();
        let call = |fence: Fence| {
            let before =
                fences.iter().filter(|it| it.session == fence.session && it.call < fence.call);
            2 * (before.count() as u64 + 1)
        };
        let order = self.order(&call);
        let mut sessions: Vec<Session> = order.iter().map(|at| self.workers[*at].session).collect();
        for session in left {
            if !sessions.contains(&session) {
                sessions.push(session);
            }
        }
        let place =
            |session| sessions.iter().position(|it| *it == session).unwrap_or(sessions.len());
        let renamed = |fence: Fence| Fence {
            session: Session(place(fence.session) as u8),
            call: call(fence),
        };
        if !order.is_sorted() {
            self.workers = order.iter().map(|at| self.workers[*at].clone()).collect();
        }
        self.each_fence(&mut |fence| {
            if fence.call == 0 { Fence { call: 0, ..renamed(fence) } } else { renamed(fence) }
        });
        for worker in &mut self.workers {
            worker.hands.sort();
        }
    }

    /// Workers by all that tells them apart: first what they know, then what the shards know of them.
    fn order(&self, call: &impl Fn(Fence) -> u64) -> Vec<usize> {
        let knows = |at: usize| {
            let worker = &self.workers[at];
            let hands = worker.hands.iter().map(|hand| {
                let word = hand.word.map(|word| word as u8);
                (hand.handle, hand.till, word, hand.attempts, hand.suspect, call(hand.fence))
            });
            (worker.asking, worker.call > 0, hands.collect::<Vec<_>>())
        };
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        order.sort_by(|one, other| {
            let known = || self.held_by(*one, call).cmp(&self.held_by(*other, call));
            knows(*one).cmp(&knows(*other)).then_with(known)
        });
        order
    }

    fn held_by(&self, at: usize, call: &impl Fn(Fence) -> u64) -> Vec<Held> {
        let worker = &self.workers[at];
        let held = |shard: &State| {
            let row = shard.sessions.get(&worker.session);
            let leases = shard.leases().into_iter();
            let leases = leases.filter(|(_, fence, _)| fence.session == worker.session);
            let settled = shard.tickets.iter().filter_map(|(id, paper)| match paper {
                Paper::Whole(ticket) => {
                    ticket.settled.map(|(fence, _)| (ticket.handle(*id), fence))
                }
                Paper::Broken(_) => None,
            });
            let settled = settled.filter(|(_, fence)| fence.session == worker.session);
            (
                row.map(|row| (row.call.cmp(&worker.call), row.handles.clone())),
                leases.map(|(till, fence, handle)| (till, call(fence), handle)).collect(),
                settled.map(|(handle, fence)| (handle, call(fence))).collect(),
            )
        };
        self.shards().map(held).collect()
    }

    /// The shard, and what is on disk of it.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &State> {
        std::iter::once(&self.shard).chain(self.disk.iter().map(|disk| &disk.0))
    }

    pub(crate) fn each_fence(&mut self, name: &mut impl FnMut(Fence) -> Fence) {
        self.shard.rename(name);
        let ledger = |ledger: &mut Ledger, name: &mut dyn FnMut(Fence) -> Fence| {
            for (_, fate) in ledger.fates.iter_mut() {
                fate.settler = fate.settler.map(&mut *name);
            }
        };
        ledger(&mut self.ledger, name);
        if let Some(disk) = &mut self.disk {
            disk.0.rename(name);
            ledger(&mut disk.1, name);
        }
        self.stray = self.stray.map(&mut *name);
        for worker in &mut self.workers {
            let last = name(Fence { session: worker.session, call: worker.call });
            (worker.session, worker.call) = (last.session, last.call);
            for hand in &mut worker.hands {
                hand.fence = name(hand.fence);
            }
        }
    }
}
