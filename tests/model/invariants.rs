//! What must be true of every shard, whatever was asked of it: the protocol's invariants, by their names.
//!
//! That model and server agree says that both do the same; this says that what they do is right.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    names,
    reply::{Part, Reply},
    state::{Generation, Handle, Held, Home, Map, Ms, Named, Names, Paper, Record, State, Ticket},
};

/// Checks a whole state that no damage was done to.
pub fn broken(state: &State) -> Result<(), String> {
    for (handle, spot) in &state.homes {
        let Named::This(ticket) = state.ticket(*handle) else {
            return Err(format!("one home: {handle:?} is in {:?} without a ticket", spot.home));
        };
        fits(state, *handle, &ticket)
            .map_err(|what| format!("{what}: {handle:?} {spot:?} {ticket:?}"))?;
    }
    for (id, paper) in &state.tickets {
        let homed =
            matches!(paper, Paper::Whole(ticket) if state.homes.contains_key(&ticket.handle(*id)));
        if !homed {
            return Err(format!("one home: the ticket of {id:?} is in none"));
        }
    }
    let suspects = state.leased_suspects();
    if suspects > 1 {
        return Err(format!("one suspect: {suspects} are leased"));
    }
    counted(state)
}

/// Whether home, ticket, record and request of one generation tell the same story.
fn fits(state: &State, handle: Handle, ticket: &Ticket) -> Result<(), &'static str> {
    let spot = state.homes[&handle];
    let record = state.records.get(&handle.id);
    let request = state.requests.contains_key(&handle.id);
    let holds = |right: bool, what: &'static str| if right { Ok(()) } else { Err(what) };
    match spot.home {
        Home::Finished | Home::Dead => {
            let told = record.is_some_and(|record| record.generation == handle.generation);
            holds(told, "one record: an ended one without its record")?;
            holds(
                request == (spot.home == Home::Dead),
                "a finished one keeps no request, a dead one does",
            )?;
        }
        _ => {
            holds(record.is_none(), "one record: a live one has one")?;
            holds(request, "nothing is lost: a live one without its request")?;
        }
    }
    let fence = match spot.home {
        Home::Leased(fence) => Some(fence),
        _ => None,
    };
    holds(ticket.fence == fence, "fenced: the ticket names another owner")?;
    holds(spot.home != Home::Pending || !ticket.is_suspect(), "a suspect waits apart")?;
    holds(
        spot.home != Home::Suspects || ticket.is_suspect(),
        "what is no suspect does not wait apart",
    )?;
    let by_deadline = matches!(spot.home, Home::Pending | Home::Suspects);
    holds(!by_deadline || spot.till == ticket.deadline, "order: not at its own place")?;
    holds(
        spot.home != Home::Delayed || spot.till < ticket.deadline,
        "delayed outlives its deadline",
    )
}

/// What is held is what was counted, in all and in each lane.
fn counted(state: &State) -> Result<(), String> {
    let (mut all, mut lanes) = (0, Map::<_, Held>::new());
    let requests =
        state.requests.iter().map(|(id, body)| (*id, names::request_size(*id, *body) as i64));
    let records = state.records.iter().map(|(id, record)| (*id, record.size()));
    for (id, bytes) in requests.chain(records) {
        all += bytes;
        lanes.entry(names::lane(id)).or_default().bytes += bytes;
    }
    for (handle, _) in state.homes.iter().filter(|(_, spot)| !spot.home.is_end()) {
        lanes.entry(names::lane(handle.id)).or_default().requests += 1;
    }
    fn kept(from: &Map<&'static str, Held>) -> impl Iterator<Item = (&'static str, i64, i64)> {
        let counts = from.iter().map(|(lane, held)| (*lane, held.requests, held.bytes));
        counts.filter(|(_, requests, bytes)| (*requests, *bytes) != (0, 0))
    }
    if state.meta.bytes.unwrap_or(0) != all {
        return Err(format!("bytes held: {all}, counted: {:?}", state.meta.bytes));
    }
    if !kept(&state.lanes).eq(kept(&lanes)) {
        return Err(format!("lanes hold {lanes:?}, counted: {:?}", state.lanes));
    }
    Ok(())
}

/// What must stay true from one step to the next: what was accepted, and how each ended.
#[derive(Clone, Default)]
pub struct Ledger {
    accepted: BTreeSet<Handle>,
    records: BTreeMap<Generation, Record>,
}

impl Ledger {
    /// Everything that was said to live is there or has ended, and no record was ever replaced.
    pub fn follow(&mut self, reply: &Reply, state: &State) -> Result<(), String> {
        for answer in &reply.answers {
            match answer.as_slice() {
                [Part::Word("accepted" | "redriven"), Part::Ticket(ticket)] => {
                    if let Names::Of(id) = ticket.names {
                        self.accepted.insert(ticket.handle(id));
                    }
                }
                // Its retention is over: a copy of its submit that is later still is a new request.
                [Part::Word("swept"), Part::Handle(handle)] => {
                    self.accepted.remove(handle);
                    self.records.remove(&handle.generation);
                }
                _ => {}
            }
        }
        for record in state.records.values() {
            let first = self.records.entry(record.generation).or_insert_with(|| record.clone());
            if first != record {
                return Err(format!("one record: {first:?} became {record:?}"));
            }
        }
        let lost = |handle: &&Handle| {
            !state.homes.contains_key(*handle) && !self.records.contains_key(&handle.generation)
        };
        match self.accepted.iter().find(lost) {
            Some(handle) => Err(format!("nothing is lost: where is {handle:?}?")),
            None => Ok(()),
        }
    }

    /// Time passes here too.
    pub fn pass(&mut self, by: i64) {
        for record in self.records.values_mut() {
            record.ended_at = moved(record.ended_at, by);
        }
    }
}

fn moved(at: Ms, by: i64) -> Ms {
    at.saturating_add_signed(-by)
}
