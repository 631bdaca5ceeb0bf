//! Actions on one request, each guarded by what its operator saw: the due time of a back-off, the fence of a lease.

use serde::{Deserialize, Serialize};

use super::{ActError, Queue, Seconds, patiently};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    metrics,
    model::{Fence, Handle, Home, Identity},
    script::{Found, Promote, PromoteReply, Read, Reclaim, ReclaimReply},
};

/// Which request of which queue.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// Tenant and id.
    pub identity: &'a Identity,
}

/// What an action found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Acted {
    /// The queue.
    pub queue: String,
    /// The request's tenant.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// Its generation.
    pub generation: String,
    /// `retry-now` or `release`.
    pub action: String,
    /// `moved`, `returned`, `dropped`, the outcome that it ended with instead, or `dry-run`.
    pub outcome: String,
    /// Where it was.
    pub before: String,
    /// When it was due, where that was pulled forward.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub due: Option<Seconds>,
    /// Whose lease was ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fence: Option<String>,
}

/// Pulls a back-off forward. `due`: when its operator saw it due, in ms; none: when it is due now.
pub async fn retry_now(
    redis: &Redis,
    target: Target<'_>,
    due: Option<u64>,
    dry_run: bool,
) -> Result<Acted, ActError> {
    let (shard, handle, found) = target.find(redis).await?;
    let home = found.home.map_or("nowhere", Home::word);
    if found.home != Some(Home::Delayed) {
        return Err(ActError::Elsewhere(format!(
            "it is {home}, not delayed: nothing to pull forward"
        )));
    }
    if due.is_some_and(|due| due != found.score) {
        let told = "it is due at another time than was seen: a later back-off stands";
        return Err(ActError::Elsewhere(told.to_owned()));
    }
    let mut acted = target.acted(handle, "retry-now", home);
    acted.due = Some(Seconds(found.score));
    if dry_run {
        return Ok(acted);
    }
    let named = &[(handle, found.score)];
    let call = Promote { shard: &shard, limit: 1, named };
    let (replies, after_unanswered) = patiently(|| call.run(redis)).await?;
    acted.outcome = match replies.first() {
        Some(PromoteReply::Moved(_)) => "moved".to_owned(),
        // The first copy may have moved it.
        _ if after_unanswered => "unknown".to_owned(),
        _ => return Err(ActError::Elsewhere("it was moved by somebody else meanwhile".to_owned())),
    };
    Ok(acted)
}

/// Ends a lease: the request can be claimed again at once. No lapse is charged; the attempt counts. `fence`: whose lease
/// its operator saw; none: whoever holds it now.
pub async fn release(
    redis: &Redis,
    target: Target<'_>,
    fence: Option<Fence>,
    dry_run: bool,
) -> Result<Acted, ActError> {
    let (shard, handle, found) = target.find(redis).await?;
    let home = found.home.map_or("nowhere", Home::word);
    let (Some(Home::Leased), Some(held)) = (found.home, found.ticket.fence) else {
        return Err(ActError::Elsewhere(format!("it is {home}, not leased: nothing to release")));
    };
    if fence.is_some_and(|fence| fence != held) {
        let told = "it is leased under another fence than was seen: that lease stands";
        return Err(ActError::Elsewhere(told.to_owned()));
    }
    let mut acted = target.acted(handle, "release", home);
    acted.fence = Some(held.to_string());
    if dry_run {
        return Ok(acted);
    }
    let named = &[(held, handle)];
    let call = Reclaim { shard: &shard, limit: 1, named };
    let (replies, after_unanswered) = patiently(|| call.run(redis)).await?;
    acted.outcome = match replies.first() {
        Some(ReclaimReply::Returned(..)) => "returned".to_owned(),
        Some(ReclaimReply::Ended(_, outcome, _)) => {
            metrics::ended(target.queue.name.as_str(), outcome.word());
            outcome.word().to_owned()
        }
        Some(ReclaimReply::Dropped(_)) => "dropped".to_owned(),
        _ if after_unanswered => "unknown".to_owned(),
        _ => return Err(ActError::Elsewhere("its lease ended by itself meanwhile".to_owned())),
    };
    Ok(acted)
}

impl Target<'_> {
    /// Where the request is.
    async fn find(&self, redis: &Redis) -> Result<(ShardKeys, Handle, Found), ActError> {
        let (shard, key) = self.queue.place(self.identity);
        let found = look(redis, &shard, key).await?.filter(|found| is_of(found, self.identity));
        let found = found.ok_or(ActError::Unknown)?;
        Ok((shard, found.ticket.handle(key), found))
    }

    fn acted(&self, handle: Handle, action: &str, before: &str) -> Acted {
        Acted {
            queue: self.queue.name.to_string(),
            tenant: self.identity.tenant.to_string(),
            id: self.identity.id.to_string(),
            generation: handle.generation().to_string(),
            action: action.to_owned(),
            outcome: "dry-run".to_owned(),
            before: before.to_owned(),
            due: None,
            fence: None,
        }
    }
}

/// What is kept under a key, the head of its record with it.
pub(super) async fn look(
    redis: &Redis,
    shard: &ShardKeys,
    key: crate::model::Key,
) -> Result<Option<Found>, StoreError> {
    let read = Read { shard, keys: &[key], whole: 0, tick: false };
    Ok(read.run(redis).await?.into_iter().next().flatten())
}

/// Whether what is kept under a key is what was asked for: a key is a hash. A ticket that lost its names is known by
/// its key alone.
pub(super) fn is_of(found: &Found, identity: &Identity) -> bool {
    found.ticket.identity.as_ref().is_none_or(|kept| kept == identity)
}
