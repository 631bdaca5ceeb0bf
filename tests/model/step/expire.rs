use crate::{
    reply::{Reply, answer},
    state::{Ms, State},
};

impl State {
    /// Ends what waited past its deadline.
    pub(super) fn expire(&mut self, limit: usize, now: Ms) -> Reply {
        let mut reply = Reply::default();
        let late = self.end_late(limit, now, &mut reply);
        late.ended
            .into_iter()
            .for_each(|(handle, outcome)| reply.say(answer!["ended", handle, outcome]));
        reply
    }
}
