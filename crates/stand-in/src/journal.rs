//! The journal: numbers arrivals, keeps them, and lets others wait for them.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::http::request::Parts;
use tokio::sync::watch;

use crate::arrival::{Arrival, Counts, End, How};
use crate::log::Log;

/// Which arrivals are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All of them, with all their bytes: for tests.
    #[default]
    All,
    /// The last so many.
    Last(usize),
    /// None, only [`Counts`]: for benches and long runs.
    Counts,
}

/// All arrivals so far.
pub(crate) struct Journal {
    started: Instant,
    keep: Keep,
    /// In the order of their numbers, without gaps: the first one's number gives each one's place.
    kept: Mutex<VecDeque<Arrival>>,
    counts: watch::Sender<Counts>,
    log: Option<Log>,
}

impl Journal {
    /// An empty journal; `log` is created, or continued at its end.
    pub(crate) fn new(keep: Keep, log: Option<&Path>) -> io::Result<Self> {
        let log = log.map(Log::open).transpose()?;
        let counts = watch::Sender::new(Counts::default());
        Ok(Self { started: Instant::now(), keep, kept: Mutex::default(), counts, log })
    }

    /// Takes a request in.
    pub(crate) fn arrive(self: &Arc<Self>, parts: &Parts, body: &Bytes) -> Record {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let (since_start, unix_ms) = (self.started.elapsed(), unix_ms());
        let arrival = |number| Arrival {
            number,
            since_start,
            unix_ms,
            method: parts.method.clone(),
            path: path.to_owned(),
            headers: parts.headers.clone(),
            body: body.clone(),
            end: None,
        };
        let mut kept = self.kept();
        let mut number = 0;
        self.counts.send_modify(|counts| {
            counts.arrived += 1;
            number = counts.arrived;
        });
        if let Some(log) = &self.log {
            log.arrived(&arrival(number));
        }
        let most = match self.keep {
            Keep::All => usize::MAX,
            Keep::Last(most) => most,
            Keep::Counts => 0,
        };
        if most > 0 {
            kept.push_back(arrival(number));
        }
        while kept.len() > most {
            kept.pop_front();
        }
        drop(kept);
        Record { journal: Arc::clone(self), number, unix_ms, ended: false }
    }

    fn end(&self, number: u64, how: How, status: Option<u16>, answer: Bytes) {
        let end = End { how, since_start: self.started.elapsed(), status, answer };
        if let Some(log) = &self.log {
            log.ended(number, &end);
        }
        let mut kept = self.kept();
        let place = place(&kept, number);
        let arrival = place.and_then(|at| kept.get_mut(at));
        if let Some(arrival) = arrival {
            arrival.end = Some(end);
        }
        drop(kept);
        self.counts.send_modify(|counts| match how {
            How::Given => counts.given += 1,
            How::Cut => counts.cut += 1,
            How::Gone => counts.gone += 1,
        });
    }

    /// The kept arrivals with a number above `since`, at most `limit`, oldest first.
    pub(crate) fn after(&self, since: u64, limit: usize) -> Vec<Arrival> {
        let kept = self.kept();
        kept.iter().filter(|arrival| arrival.number > since).take(limit).cloned().collect()
    }

    /// One arrival, if it is kept.
    pub(crate) fn get(&self, number: u64) -> Option<Arrival> {
        let kept = self.kept();
        kept.get(place(&kept, number)?).cloned()
    }

    /// The counts, to read or to wait for.
    pub(crate) fn counts(&self) -> watch::Receiver<Counts> {
        self.counts.subscribe()
    }

    /// A panic under the lock leaves whole entries only: each change is one push, pop or assignment.
    fn kept(&self) -> MutexGuard<'_, VecDeque<Arrival>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an arrival stands among those that are kept: their numbers have no gaps. It may be past the last.
fn place(kept: &VecDeque<Arrival>, number: u64) -> Option<usize> {
    usize::try_from(number.checked_sub(kept.front()?.number)?).ok()
}

/// The open entry of one arrival. Dropped before it is ended, its client has gone.
pub(crate) struct Record {
    journal: Arc<Journal>,
    /// The arrival's number.
    pub(crate) number: u64,
    /// When it came, by the wall clock.
    pub(crate) unix_ms: u64,
    ended: bool,
}

impl Record {
    /// Closes the entry; only the first call counts.
    pub(crate) fn end(&mut self, how: How, status: Option<u16>, answer: Bytes) {
        if !std::mem::replace(&mut self.ended, true) {
            self.journal.end(self.number, how, status, answer);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.end(How::Gone, None, Bytes::new());
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "shown to readers of the journal; nothing is decided by it"
)]
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn arrive(journal: &Arc<Journal>) -> Record {
        let (parts, ()) = Request::new(()).into_parts();
        journal.arrive(&parts, &Bytes::from_static(b"{}"))
    }

    fn journal(keep: Keep) -> Arc<Journal> {
        Arc::new(Journal::new(keep, None).unwrap())
    }

    #[test]
    fn the_last_few_are_kept_and_all_are_counted() {
        let journal = journal(Keep::Last(2));
        let mut records: Vec<Record> = (0..5).map(|_| arrive(&journal)).collect();
        let numbers: Vec<u64> = journal.after(0, 9).iter().map(|arrival| arrival.number).collect();
        assert_eq!(numbers, [4, 5]);
        records[0].end(How::Given, Some(200), Bytes::new());
        records[4].end(How::Cut, Some(200), Bytes::from_static(b"half"));
        assert_eq!(journal.get(5).unwrap().end.unwrap().answer, "half");
        assert!(journal.get(4).unwrap().end.is_none(), "the end of one never lands on another");
        assert_eq!(*journal.counts().borrow(), Counts { arrived: 5, given: 1, cut: 1, gone: 0 });
    }

    #[test]
    fn an_entry_dropped_open_is_a_client_that_went_away() {
        let journal = journal(Keep::All);
        drop(arrive(&journal));
        arrive(&journal).end(How::Given, Some(200), Bytes::new());
        let ends: Vec<How> =
            journal.after(0, 9).iter().map(|it| it.end.as_ref().unwrap().how).collect();
        assert_eq!(ends, [How::Gone, How::Given]);
        assert_eq!(journal.counts().borrow().open(), 0);
    }

    #[test]
    fn counting_alone_keeps_nothing() {
        let journal = journal(Keep::Counts);
        let _open = arrive(&journal);
        assert!(journal.after(0, 9).is_empty());
        assert!(journal.get(1).is_none());
        assert_eq!(journal.counts().borrow().arrived, 1);
    }
}
