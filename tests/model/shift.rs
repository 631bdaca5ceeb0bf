//! Time passes: instead of waiting, everything that is remembered moves into the past.
//!
//! The server's clock cannot be set, but to its scripts a shard that is older by some time is the same as a clock that is
//! later by it. Moved the other way, it is a clock that went back.

use crate::{
    call::Call,
    state::{Ms, Paper, State, Ticket},
};

/// A moment as it is seen when `by` ms more have passed; 0 stands for none and stays.
fn moved(moment: Ms, by: i64) -> Ms {
    if moment == 0 { 0 } else { moment.saturating_add_signed(-by) }
}

fn shift(moment: &mut Ms, by: i64) {
    *moment = moved(*moment, by);
}

impl State {
    /// Lets `by` ms pass, or go back.
    pub fn pass(&mut self, by: i64) {
        self.homes.iter_mut().for_each(|(_, spot)| shift(&mut spot.till, by));
        for (_, paper) in self.tickets.iter_mut() {
            if let Paper::Whole(ticket) = paper {
                ticket.pass(by);
            }
        }
        self.records.iter_mut().for_each(|(_, record)| shift(&mut record.ended_at, by));
        let rates = self.lanes.iter_mut().filter_map(|(_, held)| held.used_till.as_mut());
        rates.for_each(|till| shift(till, 1_000 * by));
        self.sessions.iter_mut().for_each(|(_, row)| shift(&mut row.seen, by));
        self.workers.iter_mut().for_each(|(_, (seen, _))| shift(seen, by));
        self.ended_workers.iter_mut().for_each(|(_, ended)| shift(ended, by));
        self.meta.beat.iter_mut().for_each(|beat| shift(beat, by));
        self.meta.forgiven_to.iter_mut().for_each(|till| shift(till, by));
    }

    /// The moments at which something changes by itself.
    pub fn moments(&self) -> Vec<Ms> {
        let half = self.meta.longest_lease.unwrap_or(0) / 2;
        let mut moments: Vec<Ms> = self.homes.values().map(|spot| spot.till).collect();
        let tickets = self.tickets.values().filter_map(|paper| match paper {
            Paper::Whole(ticket) => Some(ticket.deadline),
            Paper::Broken(_) => None,
        });
        moments.extend(tickets);
        let outage = self.meta.beat.map(|beat| beat + half);
        moments.extend([outage; 4].into_iter().flatten());
        // From when on the first submit is accepted again.
        let rates = self.lanes.values().filter_map(|held| held.used_till);
        moments.extend(rates.map(|till| till / 1_000));
        moments.extend(self.meta.forgiven_to);
        moments
    }
}

impl Ticket {
    fn pass(&mut self, by: i64) {
        for moment in [&mut self.deadline, &mut self.not_before, &mut self.submitted_at] {
            shift(moment, by);
        }
        self.claimed_at.iter_mut().for_each(|at| shift(at, by));
        self.failure.iter_mut().for_each(|(_, at)| shift(at, by));
        if let Some((_, Some((_, at)))) = &mut self.previous {
            shift(at, by);
        }
    }
}

impl Call {
    /// The same call, sent before that time passed.
    pub fn pass(&mut self, by: i64) {
        match self {
            Self::Submit { items, .. } => {
                for item in items {
                    shift(&mut item.deadline, by);
                    shift(&mut item.not_before, by);
                }
            }
            Self::Claim(claim) => shift(&mut claim.trusted_until, by),
            Self::Redrive(rows) => rows.iter_mut().for_each(|(.., deadline)| shift(deadline, by)),
            Self::Promote { named, .. } => named.iter_mut().for_each(|(_, due)| shift(due, by)),
            Self::Spoiled { call, .. } => call.pass(by),
            _ => {}
        }
    }
}
