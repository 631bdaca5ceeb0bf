//! 6: all or nothing, also where the user that runs a script lacks one of its rights.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{error::Refusal, script};

use super::types::{CALLS, World};

/// What a script sends by its own text, and by the texts that all share.
fn commands(text: &str) -> BTreeSet<String> {
    let named = ["call('", "flush('"].into_iter().flat_map(|start| text.split(start).skip(1));
    let names = named.filter_map(|rest| rest.split('\'').next());
    let is_one = |name: &&str| !name.is_empty() && name.bytes().all(|it| it.is_ascii_uppercase());
    names.filter(is_one).map(str::to_ascii_lowercase).collect()
}

/// What a script asks for before its first write.
fn asked(source: &str) -> BTreeSet<String> {
    let words = source.split("\nallowed(").nth(1).and_then(|rest| rest.split(')').next());
    let words = words.into_iter().flat_map(|words| words.split(", "));
    words.map(|word| word.trim_matches('\'').to_ascii_lowercase()).collect()
}

impl World {
    /// Makes a call without a right, and says whether it was refused, and whether that was told by the right's name.
    async fn call_without(&self, call: &str, right: &str) -> Option<bool> {
        let user = |sign: char| format!("{sign}{right}");
        self.shard.forget_since(&self.memory).await;
        let before = self.shard.dump().await;
        self.shard.tell(&[&"ACL", &"SETUSER", &"default", &user('-')]).await;
        let told = self.call(call).await;
        self.shard.tell(&[&"ACL", &"SETUSER", &"default", &user('+')]).await;
        // Whatever was denied, no request is in two homes or in none.
        self.shard.assert_whole().await;
        let error = told.err()?;
        assert_eq!(error.refusal(), Some(Refusal::Denied), "{call} without {right}: {error}");
        let named = error.denied_command() == Some(right);
        if named && !error.may_have_run() {
            assert!(self.shard.dump().await == before, "{call} without {right} did something");
        }
        Some(named)
    }
}

#[tokio::test]
async fn a_call_without_one_of_its_rights_does_nothing_and_names_it() {
    let world = World::make().await;
    let scripts: BTreeMap<&str, _> = script::all().into_iter().map(|it| (it.name, it)).collect();
    let text: String = scripts.values().map(|it| it.text.as_str()).collect();
    for call in CALLS {
        let script = &scripts[call.split(' ').next().unwrap()];
        let asked = asked(script.source);
        for right in commands(&text) {
            let refused = world.call_without(call, &right).await;
            assert!(
                !asked.contains(&right) || refused == Some(true),
                "{call} without {right}: {refused:?}"
            );
        }
    }
}
