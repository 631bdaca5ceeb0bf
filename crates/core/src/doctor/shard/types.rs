//! Keys that somebody has overwritten with another type: whatever touches one stops there.

use super::{CALL, Grade, Report};
use crate::{Redis, StoreError, keys::ShardKeys, plain::Ask};

/// Looks at the type of each key of a shard that is there.
pub(super) async fn look(
    redis: &Redis,
    keys: &ShardKeys,
    place: &str,
    report: &mut Report,
) -> Result<(), StoreError> {
    let sets =
        [&keys.pending, &keys.suspects, &keys.delayed, &keys.leased, &keys.finished, &keys.dead];
    let hashes =
        [&keys.request, &keys.ticket, &keys.result, &keys.sessions, &keys.meta, &keys.lanes];
    let expected = sets.map(|key| (key, "zset")).into_iter();
    let expected = expected.chain(hashes.map(|key| (key, "hash"))).chain([(&keys.bell, "list")]);
    for (key, must) in expected {
        let ask = Ask { call: CALL, command: "TYPE", key, words: Vec::new() };
        let found = match ask.value(redis).await {
            // Who may not ask for types hears of it from whatever stops there.
            Err(err) if err.is_refused() => return Ok(()),
            found => found?.into_string().unwrap_or_default(),
        };
        if found != "none" && found != must {
            let told = "somebody has overwritten a key of ours with another type: what needs it stops, and the whole shard may stand still; move it away (RENAME)";
            let key = format!("{key} is a {found} and must be a {must}");
            report.add_one(Grade::Fault, "wrong-type", place, told, Some(key));
        }
    }
    Ok(())
}
