//! The rule that a worker process holds at most one suspect over all its shards and queues, as far as Redis shows it.

use fred::types::Value;

use super::{Facts, Hold, Told, waiting::limited};
use crate::{
    Redis, StoreError, counted,
    keys::ShardKeys,
    model::{Fence, Home, QueueName, Session},
    plain,
    script::{Found, registered_queues},
};

/// How the reads are called in errors.
const CALL: &str = "why";

/// So many shards of other suspects are looked at; what runs in others is not told.
const SHARDS: usize = 256;

/// A suspect that runs in another shard.
pub(super) struct Elsewhere {
    /// Its queue.
    queue: QueueName,
    /// Whose lease it is.
    session: Session,
}

/// The suspects that run in other shards than this, until one was found for each of `serving`.
pub(super) async fn elsewhere(
    redis: &Redis,
    own: &ShardKeys,
    serving: &[Session],
) -> Result<Vec<Elsewhere>, StoreError> {
    let queues = registered_queues(redis).await?;
    let shards = queues.iter().flat_map(|(name, shards)| ShardKeys::all(name, shards.get()));
    let mut found = Vec::new();
    for shard in shards.filter(|shard| shard.meta != own.meta).take(SHARDS) {
        let is_busy =
            |session: &Session| found.iter().any(|suspect: &Elsewhere| suspect.session == *session);
        if serving.iter().all(is_busy) {
            break;
        }
        let names = vec![Value::from("suspect")];
        let kept = plain::named_fields(redis, CALL, &shard.meta, names).await?;
        let Some(member) = kept.into_iter().next().flatten() else { continue };
        let session = Fence::split_member(&member).and_then(|(fence, _)| fence.session());
        let Some(session) = session else { continue };
        // The field is left behind: only a lease says that it runs.
        if plain::score(redis, CALL, &shard.leased, member).await?.is_some() {
            found.push(Elsewhere { queue: shard.queue, session });
        }
    }
    Ok(found)
}

/// No worker may take it now, whatever else there is.
pub(super) fn barred(facts: &Facts, found: &Found) -> Option<Told> {
    let (busy, _) = busy(facts);
    let all_busy = busy > 0 && busy == facts.serving.len();
    if found.home != Some(Home::Suspects) || !(facts.suspect_runs || all_busy) {
        return None;
    }
    let mut told = match facts.suspect_runs {
        true => {
            let told = format!(
                "{}, and another suspect of its shard runs: they go one at a time.",
                because(found)
            );
            let suggestion = format!(
                "Wait for that one, or look at it: holdfastctl lease ls --queue {}.",
                facts.queue
            );
            Told::new(Hold::Suspect, told, suggestion)
        }
        false => held_elsewhere(facts, found),
    };
    if let Some(limit) = facts.limit.filter(|_| limited(facts).is_some()) {
        let are = if facts.leased == 1 { "is" } else { "are" };
        told.sentence += &format!(
            " Besides, {} of at most {} {are} in flight in its shard.",
            facts.leased, limit.share
        );
    }
    Some(told)
}

/// Some of the workers may not take it.
pub(super) fn hindered(facts: &Facts, found: &Found) -> Option<Told> {
    let is_hindered = found.home == Some(Home::Suspects) && busy(facts).0 > 0;
    is_hindered.then(|| held_elsewhere(facts, found))
}

/// How many of the workers that ask here hold a suspect elsewhere, and in which queues.
fn busy(facts: &Facts) -> (usize, Vec<&QueueName>) {
    let holds = |session: &&Session| facts.suspects.iter().any(|it| it.session == **session);
    let busy = facts.serving.iter().filter(holds).count();
    let theirs = facts.suspects.iter().filter(|it| facts.serving.contains(&it.session));
    let mut queues: Vec<&QueueName> = theirs.map(|it| &it.queue).collect();
    queues.dedup();
    (busy, queues)
}

fn held_elsewhere(facts: &Facts, found: &Found) -> Told {
    let (busy, queues) = busy(facts);
    let who = match facts.serving.len() {
        1 => "the one worker that asks its queue works".to_owned(),
        all if all == busy => format!("each of the {all} workers that ask its queue works"),
        all => format!(
            "{} of the {all} workers that ask its queue {}",
            busy,
            if busy == 1 { "works" } else { "work" }
        ),
    };
    let names: Vec<String> = queues.iter().take(3).map(ToString::to_string).collect();
    let more = if queues.len() > names.len() { " and others" } else { "" };
    let noun = if queues.len() == 1 { "queue" } else { "queues" };
    let told = format!(
        "{}, and {who} on another, of {noun} {}{more}: a worker holds at most one suspect over all its queues. {} before it in its shard.",
        because(found),
        names.join(", "),
        counted(facts.ahead, "is", "are")
    );
    let list = match names.as_slice() {
        [one] => format!("holdfastctl lease ls --queue {one}"),
        _ => "holdfastctl lease ls".to_owned(),
    };
    let suggestion = match busy == facts.serving.len() {
        true => format!("Wait for that one, or look at it: {list}."),
        false => format!(
            "Wait for that one, or look at it: {list}. See whether the others are there and have a slot left: holdfastctl worker ls."
        ),
    };
    Told::new(Hold::Suspect, told, suggestion)
}

/// Why it is a suspect.
fn because(found: &Found) -> String {
    let ran_out = u64::from(found.ticket.lapses) + u64::from(found.ticket.forgiven);
    format!("It is a suspect, because {} of it ran out", counted(ran_out, "lease", "leases"))
}
