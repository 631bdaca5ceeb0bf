use crate::{
    call::Overrule,
    reply::{Part, Reply, answer},
    rules::Rule,
    state::{Override, State},
};

impl State {
    /// An operator's pause or limit. Shard 0 decides, by the version that was seen; the others take a later version.
    pub(super) fn overrule(&mut self, word: &Overrule) -> Reply {
        let kept = self.meta.overrides.get(word.field).cloned().unwrap_or_default();
        let version = if word.decide { word.version + 1 } else { word.version };
        let wanted = Override { version, value: word.value, total: word.total };
        if kept == wanted {
            return Reply::one(answer!["already", version]);
        }
        let overtaken =
            if word.decide { kept.version != word.version } else { kept.version >= version };
        if overtaken && self.keeps(Rule::Versions) {
            let total = kept.total.map_or(Part::Word(""), Part::Digits);
            return Reply::one(answer!["newer", kept.version, total]);
        }
        self.meta.overrides.insert(word.field, wanted);
        self.ring();
        Reply::one(answer!["set", version])
    }
}
