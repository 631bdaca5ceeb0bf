use super::ending::End;
use crate::{
    call::Settle,
    reply::{Part, Reply, answer},
    rules::Rule,
    state::{Answer, Handle, Home, Ms, Named, Outcome, Spot, State, Ticket, Word},
};

impl State {
    /// Ends attempts, each as its worker says. Only a lease that is held is settled.
    pub(super) fn settle(&mut self, rows: &[Settle], now: Ms) -> Reply {
        let next_due = self.line(Home::Delayed).first().map(|(due, _)| *due);
        let (mut settled, mut wakes) = (false, false);
        let mut reply = Reply::default();
        for row in rows {
            let row =
                &Settle { handle: self.meant(row.handle, Rule::SettleGeneration), ..row.clone() };
            let leased = |spot: &Spot| matches!(spot.home, Home::Leased(_));
            let anybody = !self.keeps(Rule::SettleFence);
            let held = self.holds(row.fence, row.handle)
                || anybody && self.homes.get(&row.handle).is_some_and(leased);
            settled |= held;
            let answer = match self.ticket(row.handle) {
                Named::This(ticket) if held => self.settle_one(row, ticket, now, &mut reply),
                Named::This(Ticket { settled: Some((fence, word)), .. }) if fence == row.fence => {
                    answer!["already", word.text()]
                }
                Named::This(_) => answer!["fenced"],
                Named::Unreadable if held => {
                    self.end_unusable(row.handle, now, &mut reply);
                    answer!["ended", Outcome::Unusable]
                }
                Named::Other | Named::Unreadable => {
                    // A lease of a generation that is no more holds nothing.
                    if held {
                        self.homes.remove(&row.handle);
                    }
                    answer!["gone"]
                }
            };
            wakes |= held && self.wakes(row.handle, next_due);
            reply.say(answer);
        }
        // A slot under a limit became free, or the one that suspects wait for.
        let room = self.limit().is_some() && !self.line(Home::Pending).is_empty();
        if settled && (wakes || room || !self.line(Home::Suspects).is_empty()) {
            self.ring();
        }
        reply
    }

    fn settle_one(
        &mut self,
        row: &Settle,
        mut ticket: Ticket,
        now: Ms,
        reply: &mut Reply,
    ) -> Vec<Part> {
        if row.word == Word::Release && row.number == 0 {
            ticket.attempts = ticket.attempts.saturating_sub(1);
        }
        if let Some(failure) = row.failure {
            ticket.failure = Some((failure, now));
        }
        ticket.fence = None;
        ticket.settled = self.keeps(Rule::LastSettle).then_some((row.fence, row.word));

        let late = match row.word {
            // An answer is kept and a burial carried out, whatever flag or deadline.
            Word::Ack | Word::Bury => {
                self.end(row.handle, ticket, row.end(), now, reply);
                return answer!["ok"];
            }
            Word::Retry => now + row.number >= ticket.deadline,
            Word::Release => now >= ticket.deadline,
        };
        let stopped = ticket.asked && self.keeps(Rule::FlagSettles);
        if stopped || late {
            let outcome = if stopped { Outcome::Cancelled } else { Outcome::DeadlineExceeded };
            self.end(row.handle, ticket, outcome, now, reply);
            return answer!["ended", outcome];
        }
        if row.word == Word::Retry {
            self.homes.insert(row.handle, Spot { home: Home::Delayed, till: now + row.number });
        } else {
            self.make_claimable(row.handle, &ticket);
        }
        self.keep(row.handle, &ticket);
        answer!["ok"]
    }

    /// Whether a settled generation is claimable now, or due before all others.
    fn wakes(&self, handle: Handle, next_due: Option<Ms>) -> bool {
        self.homes.get(&handle).is_some_and(|spot| match spot.home {
            Home::Pending | Home::Suspects => true,
            Home::Delayed => next_due.is_none_or(|due| spot.till < due),
            _ => false,
        })
    }
}

impl Settle {
    /// The end that an ack or a burial asks for.
    fn end(&self) -> End {
        let answer = self.answer.unwrap_or(Answer(0));
        let failed = self.failure.map_or(0, |(_, status)| status);
        let (outcome, status) = match (self.word, self.number) {
            (Word::Bury, 4) => (Outcome::GaveUp, failed),
            (Word::Bury, 5) => (Outcome::KilledWorkers, failed),
            (Word::Bury, 6) => (Outcome::Unusable, failed),
            (Word::Bury, _) => (Outcome::AnswerTooLarge, failed),
            (_, status) => (Outcome::Answered, status as u16),
        };
        End { outcome, status, answer }
    }
}
