use crate::{
    reply::{Reply, answer},
    state::State,
};

impl State {
    /// A token that was taken without a free slot comes back.
    pub(super) fn put_back_a_token(&mut self) -> Reply {
        self.ring();
        Reply::one(answer!["rung"])
    }
}
