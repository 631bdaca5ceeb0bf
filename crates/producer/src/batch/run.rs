//! Takes the items of a batch in, as many at once as go into a few calls, and tells each in its order.

use std::collections::HashMap;
use std::future::ready;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use holdfast_core::metrics;
use holdfast_core::model::Key;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

use super::cut::Spot;
use super::items::{Came, Items};
use super::outcome::{Outcome, Which};
use crate::app::{App, Queue};
use crate::item::Item;
use crate::problem::{Kind, Problem};
use crate::requests::{Admitted, Origin, Prepared, Received, outcome};
use crate::store::{Again, outcome_unknown};

/// The most items of one batch that are on their way at once: two full calls.
const AT_ONCE: usize = 512;
/// The most bytes of them.
const BYTES_AT_ONCE: usize = 4 << 20;
/// With so many bytes of outcomes that nobody reads, nothing more is read.
const TOLD_AT_ONCE: usize = 64 << 10;
/// Of so many items it is known which id was first seen where.
const IDS_KNOWN: usize = 10_000;

/// An outcome to come, and how many bytes are on their way until then.
type Coming = Pin<Box<dyn Future<Output = (Outcome, usize)> + Send>>;

/// One batch.
pub(super) struct Run {
    pub(super) app: Arc<App>,
    pub(super) queue: Arc<Queue>,
    pub(super) origin: Origin,
    pub(super) items: Items,
    /// Where the outcomes go; nobody reads there once the caller has left.
    pub(super) lines: mpsc::Sender<Bytes>,
}

/// What is known of the items so far.
#[derive(Default)]
struct Progress {
    /// Items that came.
    count: u64,
    /// Whether no more are to come.
    is_over: bool,
    /// The next item, which waits for a place among those on their way.
    next: Option<(Which, Prepared)>,
    /// In the order of the items.
    coming: FuturesOrdered<Coming>,
    /// Bytes of these.
    bytes: usize,
    /// The looks of items that must be there. They end by themselves, also while nobody takes what is told: whoever does not
    /// read keeps no place that the items of others need. Dropped, they are gone.
    looks: JoinSet<()>,
    /// Outcomes that are not handed over.
    told: Vec<u8>,
    /// The first item of each id.
    first: HashMap<Key, u64>,
}

impl Run {
    /// Goes on to the end of the batch. A problem says that there is no batch, and nothing was told.
    pub(super) async fn run(mut self) -> Result<(), Problem> {
        let mut progress = Progress::default();
        let stop = self.app.stop.clone();
        let mut read = true;
        loop {
            let reads = !progress.is_over && progress.has_room();
            if reads && !read {
                self.items.go_on();
            }
            read = reads;
            let batched = Arc::clone(&self.app.batched);
            tokio::select! {
                biased;
                Some((outcome, bytes)) = progress.coming.next() => {
                    progress.bytes -= bytes;
                    outcome.write(&mut progress.told);
                }
                place = self.lines.reserve(), if !progress.told.is_empty() => match place {
                    Ok(place) => place.send(take(&mut progress.told).into()),
                    // The caller left: what was not sent to Redis is not sent any more.
                    Err(_) => return Ok(()),
                },
                () = stop.cancelled(), if !progress.is_over => progress.end(stopping())?,
                Ok(place) = batched.acquire_owned(), if progress.next.is_some() => {
                    progress.send(&self.app, place);
                }
                came = self.items.next(), if reads => match came {
                    Some(Ok(came)) => self.take(came, &mut progress),
                    Some(Err(problem)) => progress.end(problem)?,
                    None if progress.count == 0 => return Err(empty()),
                    None => progress.is_over = true,
                },
                else => return Ok(()),
            }
        }
    }

    /// Reads an item. A bad one refuses itself only.
    fn take(&self, came: Came, progress: &mut Progress) {
        let index = progress.count;
        progress.count += 1;
        let mut which = Which { index, line: Some(came.spot.line), id: None, same_id_as: None };
        let prepared = came.text.and_then(|(text, share)| self.prepare(&text, share, came.spot));
        match prepared {
            Ok(prepared) => {
                let named = prepared.named();
                which.id = Some(named.identity.id.to_string());
                which.same_id_as = progress.first_of(named.key, index);
                progress.next = Some((which, prepared));
            }
            Err(problem) => progress.refuse(which, problem, self.queue.name.as_str()),
        }
    }

    fn prepare(
        &self,
        text: &Bytes,
        share: OwnedSemaphorePermit,
        spot: Spot,
    ) -> Result<Prepared, Problem> {
        let now_ms = self.app.store.clock.now_ms();
        let frame = self.queue.frame(now_ms);
        let mut item =
            Item::parse(text, frame).map_err(|err| err.within(spot.line, spot.column))?;
        let given = item.id.take();
        let received = Received { bytes: text, share, now_ms };
        Prepared::new(&self.app, &self.origin, (&self.queue, given), item, received)
    }
}

impl Progress {
    fn has_room(&self) -> bool {
        self.next.is_none()
            && self.coming.len() < AT_ONCE
            && self.bytes < BYTES_AT_ONCE
            && self.told.len() < TOLD_AT_ONCE
    }

    /// The first item with this id, unless it is this one, or that was too long ago to be known.
    fn first_of(&mut self, key: Key, index: u64) -> Option<u64> {
        if let Some(first) = self.first.get(&key) {
            return Some(*first);
        }
        if self.first.len() < IDS_KNOWN {
            self.first.insert(key, index);
        }
        None
    }

    /// Sends the item that has its place now.
    fn send(&mut self, app: &Arc<App>, place: OwnedSemaphorePermit) {
        let Some((which, prepared)) = self.next.take() else { return };
        let (bytes, queue) = (prepared.size(), Arc::clone(&prepared.named().queue));
        self.bytes += bytes;
        let finish = move |told: Result<Admitted, Problem>| {
            metrics::submitted(queue.name.as_str(), outcome(&told));
            (Outcome { which, told, unread: false }, bytes)
        };
        self.coming.push_back(if prepared.must_be_kept() {
            let (app, (tell, told)) = (Arc::clone(app), oneshot::channel());
            while self.looks.try_join_next().is_some() {}
            self.looks.spawn(async move {
                // Where nobody wants it any more, the batch has ended.
                let _ = tell.send(prepared.admit(&app, Some(place)).await);
            });
            Box::pin(async move { finish(told.await.unwrap_or_else(|_| Err(lost()))) })
        } else {
            // Here and now, so that items stand in the queue in the order of the batch.
            match prepared.send(Some(place)) {
                Ok(sent) => Box::pin(async move { finish(sent.told().await) }),
                Err(problem) => Box::pin(ready(finish(Err(problem)))),
            }
        });
    }

    fn refuse(&mut self, which: Which, problem: Problem, queue: &str) {
        let told = Err(problem);
        metrics::submitted(queue, outcome(&told));
        let refused = Outcome { which, told, unread: false };
        self.coming.push_back(Box::pin(ready((refused, 0))));
    }

    /// Nothing more is read, and the caller is told so in the place of the next item, if it was told anything. That is the item
    /// that waits for a place, if one does: it is not sent, and no line may stand behind the last.
    fn end(&mut self, problem: Problem) -> Result<(), Problem> {
        self.is_over = true;
        if self.count == 0 {
            return Err(problem);
        }
        let index = self.next.take().map_or(self.count, |(which, _)| which.index);
        let which = Which { index, line: None, id: None, same_id_as: None };
        let end = Outcome { which, told: Err(problem), unread: true };
        self.coming.push_back(Box::pin(ready((end, 0))));
        Ok(())
    }
}

fn empty() -> Problem {
    Problem::new(Kind::InvalidBatch, "the batch is empty; it must hold at least one item")
}

/// The task of an item is gone, and what it did with it.
fn lost() -> Problem {
    outcome_unknown(Again::Submit)
}

fn stopping() -> Problem {
    Problem::new(
        Kind::Draining,
        "this process is stopping; neither this item nor those behind it were stored",
    )
}

#[cfg(test)]
mod tests;
