//! `settle`: end attempts, each as its worker says.

use std::time::Duration;

use bytes::Bytes;

use super::{Script, outcome_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Answer, Failure, Fence, Handle, Outcome, Settled},
};

pub(super) static SETTLE: Script<13, 0, 3> =
    Script::new("settle", include_str!("../../lua/settle.lua"));

/// How an attempt ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleKind {
    /// Publish the gateway's answer.
    Ack {
        /// The gateway's status.
        status: u16,
        /// What it answered.
        answer: Answer,
    },
    /// Try again later.
    Retry {
        /// How much later.
        delay: Duration,
        /// Why.
        failure: Failure,
    },
    /// Hand it back.
    Release {
        /// Whether anything reached the gateway; if not, the attempt is taken back.
        sent: bool,
        /// Why, if anything went wrong.
        failure: Option<Failure>,
    },
    /// Give up.
    Bury {
        /// How it ends.
        outcome: Burial,
        /// Why.
        failure: Failure,
        /// The head of an answer, if there is one to show.
        answer: Option<Answer>,
    },
}

/// The ends by which a worker may bury. What else ends in `dead` is not a worker's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burial {
    /// [`Outcome::GaveUp`].
    GaveUp,
    /// [`Outcome::Unusable`].
    Unusable,
    /// [`Outcome::AnswerTooLarge`].
    AnswerTooLarge,
}

impl From<Burial> for Outcome {
    fn from(burial: Burial) -> Self {
        match burial {
            Burial::GaveUp => Self::GaveUp,
            Burial::Unusable => Self::Unusable,
            Burial::AnswerTooLarge => Self::AnswerTooLarge,
        }
    }
}

impl SettleKind {
    /// Its word.
    pub fn word(&self) -> Settled {
        match self {
            Self::Ack { .. } => Settled::Ack,
            Self::Retry { .. } => Settled::Retry,
            Self::Release { .. } => Settled::Release,
            Self::Bury { .. } => Settled::Bury,
        }
    }
}

/// One attempt to end. A repeat says the same; another kind under the same fence is never sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleItem {
    /// Proof of ownership.
    pub fence: Fence,
    /// What is owned.
    pub handle: Handle,
    /// How it ends.
    pub kind: SettleKind,
}

impl SettleItem {
    /// About how many bytes of a call it takes.
    pub fn size(&self) -> usize {
        128 + match &self.kind {
            SettleKind::Ack { answer, .. } | SettleKind::Bury { answer: Some(answer), .. } => {
                answer.packed_size()
            }
            _ => 0,
        }
    }

    /// What is owned and by whom, how it ends, and an answer.
    fn row(&self) -> [Bytes; 3] {
        let (number, failure, answer) = match &self.kind {
            SettleKind::Ack { status, answer } => (u64::from(*status), None, Some(answer)),
            SettleKind::Retry { delay, failure } => {
                (u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), Some(failure), None)
            }
            SettleKind::Release { sent, failure } => (u64::from(*sent), failure.as_ref(), None),
            SettleKind::Bury { outcome, failure, answer } => {
                (Outcome::from(*outcome) as u64, Some(failure), answer.as_ref())
            }
        };
        let mut lease = Vec::with_capacity(65);
        lease.extend_from_slice(self.fence.as_bytes());
        lease.push(b'|');
        lease.extend_from_slice(self.handle.as_bytes());
        let mut end = Vec::with_capacity(12);
        end.push(self.kind.word().mark());
        end.extend_from_slice(&number.to_be_bytes());
        if let Some(failure) = failure {
            end.extend_from_slice(&failure.pack());
        }
        [lease.into(), end.into(), answer.map(Answer::pack).unwrap_or_default()]
    }
}

/// Ends attempts of one shard: the group commit.
pub struct Settle<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// What ends, and how.
    pub items: &'a [SettleItem],
}

/// What became of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleReply {
    /// Done as said.
    Done,
    /// It met a cancel or the deadline, and ended so.
    Ended(Outcome),
    /// This fence has settled it before, like this.
    Already(Settled),
    /// Not ours: nothing was written.
    Fenced,
    /// Another generation is there, or none: nothing was written.
    Gone,
}

impl Settle<'_> {
    /// Runs the script: one reply an item, in their order.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<SettleReply>, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.pending,
            &shard.suspects,
            &shard.delayed,
            &shard.leased,
            &shard.finished,
            &shard.dead,
            &shard.request,
            &shard.ticket,
            &shard.result,
            &shard.meta,
            &shard.lanes,
            &shard.bell,
            &shard.ended,
        ]
        .map(String::as_str);
        let rows = self.items.iter().map(SettleItem::row).collect();
        SETTLE
            .run(redis, keys, [], rows, |word, rest| match word {
                b"ok" => Some(SettleReply::Done),
                b"ended" => Some(SettleReply::Ended(outcome_at(rest, 0)?)),
                b"already" => {
                    Settled::from_word(rest.first()?.as_bytes()?).map(SettleReply::Already)
                }
                b"fenced" => Some(SettleReply::Fenced),
                b"gone" => Some(SettleReply::Gone),
                _ => None,
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_item_covers_all_that_it_sends() {
        let header = |name: &str, size| (name.to_owned(), Bytes::from(vec![b'v'; size]));
        let answer = Answer {
            headers: vec![header("content-type", 16), header("retry-after", 60_000)],
            body: Bytes::from_static(b"body"),
        };
        let failure = Failure { code: crate::model::FailureCode::Status, status: 503 };
        let outcome = Burial::AnswerTooLarge;
        for kind in [
            SettleKind::Ack { status: 200, answer: answer.clone() },
            SettleKind::Bury { outcome, failure, answer: Some(answer) },
            SettleKind::Bury { outcome, failure, answer: None },
            SettleKind::Retry { delay: Duration::from_secs(60), failure },
            SettleKind::Release { sent: true, failure: Some(failure) },
        ] {
            let item =
                SettleItem { fence: Fence::from([1; 32]), handle: Handle::from([2; 32]), kind };
            let sent: usize = item.row().iter().map(Bytes::len).sum();
            let size = item.size();
            assert!((sent..=sent + 128).contains(&size), "{sent} bytes, told as {size}");
        }
    }
}
