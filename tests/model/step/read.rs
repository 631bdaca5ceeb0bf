use crate::{
    reply::{Part, Reply, answer},
    state::{Id, Ms, State},
};

impl State {
    /// Says where requests are, and how they ended, until so many bytes of records are read; counts a tick where durability
    /// wants a write.
    pub(super) fn read(
        &mut self,
        (whole, room): (usize, usize),
        tick: bool,
        ids: &[Id],
        now: Ms,
    ) -> Reply {
        let mut read = 0;
        let mut reply = Reply::default();
        for id in ids {
            if read >= room {
                reply.say(answer!["later"]);
                continue;
            }
            let Some(ticket) = self.readable(*id) else {
                reply.say(answer!["none"]);
                continue;
            };
            let spot = self.homes.get(&ticket.handle(*id));
            let (home, till) = spot.map_or(("nowhere", 0), |spot| (spot.home.word(), spot.till));
            let ended = spot.is_some_and(|spot| spot.home.is_end());
            let record = self.records.get(id).filter(|_| ended).cloned().map(Box::new);
            read += record.as_ref().map_or(0, |record| record.pack().len());
            reply.say(answer![
                "at",
                home,
                Part::Digits(till),
                Part::Digits(now),
                ticket.clone(),
                Part::Record { record, whole },
            ]);
        }
        self.meta.tick += u64::from(tick);
        reply
    }
}
