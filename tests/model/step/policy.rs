use crate::{
    reply::{Reply, answer},
    state::State,
};

impl State {
    /// Writes a queue's settings where the scripts read them: the last start wins, under a new version.
    pub(super) fn declare(
        &mut self,
        schema: u64,
        write: bool,
        rows: &[(&'static str, Option<u64>)],
    ) -> Reply {
        if let Some(newer) = self.meta.schema.filter(|kept| *kept > schema) {
            return Reply::one(answer!["newer", newer]);
        }
        let version = self.meta.policy_version;
        let same = rows.iter().all(|(field, value)| self.policy(field) == *value);
        if same {
            return Reply::one(answer!["same", version]);
        }
        if !write {
            return Reply::one(answer!["differs", version]);
        }
        for (field, value) in rows {
            match value {
                Some(value) => self.meta.policy.insert(field, *value),
                None => self.meta.policy.remove(field),
            };
        }
        self.meta.schema = Some(schema);
        self.meta.policy_version += 1;
        // A raised limit may let something run.
        self.ring();
        Reply::one(answer!["written", version + 1])
    }
}
