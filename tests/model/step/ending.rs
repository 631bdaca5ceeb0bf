use crate::{
    names,
    reply::Reply,
    state::{Answer, Handle, Home, Id, Ms, Names, Outcome, Paper, Record, Spot, State, Ticket},
};

/// How long a record is kept where nobody has written the queue's policy.
const A_DAY: Ms = 86_400_000;

/// How a generation is to end, and with what.
pub(super) struct End {
    pub(super) outcome: Outcome,
    pub(super) status: u16,
    pub(super) answer: Answer,
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, status: 0, answer: Answer(0) }
    }
}

impl Outcome {
    /// Whether the request is kept whole, for an operator.
    fn is_dead(self) -> bool {
        self >= Self::GaveUp
    }
}

impl State {
    /// Ends a generation: the one place where a record is made. It leaves its home for its last one, its request is
    /// forgotten unless an operator may want it, and who waits is told.
    pub(super) fn end(
        &mut self,
        handle: Handle,
        ticket: Ticket,
        end: impl Into<End>,
        now: Ms,
        reply: &mut Reply,
    ) {
        let end = end.into();
        let record = Record {
            outcome: end.outcome,
            generation: handle.generation,
            ended_at: now,
            attempts: ticket.attempts,
            lapses: ticket.lapses,
            forgiven: ticket.forgiven,
            failure: ticket.failure.map(|(failure, _)| failure),
            status: end.status,
            names: ticket.names,
            answer: end.answer,
        };
        let (home, retention) = if end.outcome.is_dead() {
            (Home::Dead, "dead_retention")
        } else {
            (Home::Finished, "retention")
        };
        let freed = if end.outcome.is_dead() { 0 } else { self.forget_request(handle.id) };
        self.hold(ticket.names, -1, record.size() - freed);
        let till = now + self.policy(retention).unwrap_or(A_DAY);
        self.homes.insert(handle, Spot { home, till });
        self.tickets.insert(handle.id, Paper::Whole(Ticket { fence: None, ..ticket }));
        self.records.insert(handle.id, record);
        reply.ended.push((handle.id, handle.generation));
    }

    /// Ends a generation of which nothing can be read.
    pub(super) fn end_unusable(&mut self, handle: Handle, now: Ms, reply: &mut Reply) {
        self.end(handle, self.mended(handle), Outcome::Unusable, now, reply);
    }

    /// A ticket for a generation that lost its own, named after its request if that is left.
    pub(super) fn mended(&self, handle: Handle) -> Ticket {
        let named = self.requests.contains_key(&handle.id);
        let names = if named { Names::Of(handle.id) } else { Names::Lost };
        Ticket { names, ..Ticket::blank(handle) }
    }

    /// Removes a request, and says how many bytes that were.
    pub(super) fn forget_request(&mut self, id: Id) -> i64 {
        self.requests.remove(&id).map_or(0, |body| names::request_size(id, body) as i64)
    }

    /// Counts what is held, in all and in the lane of who it belongs to.
    pub(super) fn hold(&mut self, names: Names, requests: i64, bytes: i64) {
        if bytes != 0 {
            *self.meta.bytes.get_or_insert(0) += bytes;
        }
        if let Names::Of(id) = names {
            let held = self.lanes.entry(names::lane(id)).or_default();
            held.requests += requests;
            held.bytes += bytes;
        }
    }
}

impl Ticket {
    /// A ticket of which nothing but the name is known.
    pub(super) fn blank(handle: Handle) -> Self {
        Self {
            asked: false,
            sequence: handle.sequence,
            generation: handle.generation,
            body: None,
            deadline: 0,
            not_before: 0,
            submitted_at: 0,
            attempts: 0,
            lapses: 0,
            forgiven: 0,
            fence: None,
            claimed_at: None,
            settled: None,
            failure: None,
            previous: None,
            names: Names::Lost,
            tail: false,
        }
    }
}
