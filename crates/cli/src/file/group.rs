//! Lines that are submitted with one call, and what becomes of each.
//!
//! Each line is told its own outcome, and has a patience of its own. What the server is too busy for, or did not tell the
//! outcome of, goes into the next round; the others are over with this one, also where the answer broke off behind them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use crate::api::{Came, NoAnswer};
use crate::caller::{Tries, Trouble};
use crate::reply::Reply;

/// The most lines of a call, and the most bytes of several; a longer line travels alone.
const MOST_LINES: usize = 256;
const MOST_BYTES: usize = 1 << 20;

/// A line on its way.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) custom_id: Box<RawValue>,
    pub(super) generation: Option<String>,
}

/// A line, and the answer that counts.
pub(super) type Answered = (Line, Result<Reply, Trouble>);

/// A line to submit.
pub(super) struct Pending {
    pub(super) line: Line,
    pub(super) item: Bytes,
    /// Its share of the memory for lines.
    pub(super) _share: OwnedSemaphorePermit,
    pub(super) tries: Tries,
}

/// Lines for one call.
#[derive(Default)]
pub(super) struct Group {
    pending: Vec<Pending>,
    bytes: usize,
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= MOST_LINES || self.bytes >= MOST_BYTES
    }

    /// Whether so many bytes are too many for it.
    pub(super) fn has_room_for(&self, item: &Bytes) -> bool {
        self.is_empty() || (!self.is_full() && self.bytes + item.len() < MOST_BYTES)
    }

    pub(super) fn push(&mut self, pending: Pending) {
        self.bytes += pending.item.len() + 1;
        self.pending.push(pending);
    }

    /// The body of the call: an item a line.
    pub(super) fn body(&self) -> Bytes {
        let mut body = BytesMut::with_capacity(self.bytes);
        for pending in &self.pending {
            body.extend_from_slice(&pending.item);
            body.extend_from_slice(b"\n");
        }
        body.freeze()
    }

    /// The same lines in two groups, the later ones first, where the answer is that these are too many bytes for one call:
    /// that is no word on any of several lines.
    pub(super) fn halves(&mut self, came: &Came) -> Option<[Self; 2]> {
        let too_long =
            matches!(came, Came::Whole(Ok(reply)) if reply.status == StatusCode::PAYLOAD_TOO_LARGE);
        if !too_long || self.pending.len() < 2 {
            return None;
        }
        let later = self.pending.split_off(self.pending.len() / 2);
        Some([later, std::mem::take(&mut self.pending)].map(|lines| {
            let mut half = Self::default();
            lines.into_iter().for_each(|line| half.push(line));
            half
        }))
    }

    /// What a call came to. `again` says how long to wait before a line is sent again, or that its patience has ended.
    pub(super) fn round(
        self,
        came: Came,
        again: impl Fn(Trouble, Option<Duration>, &mut Tries) -> Result<Duration, Trouble>,
    ) -> Round {
        // A page that some proxy gives is no outcome of a line, whatever its status.
        let is_foreign = matches!(&came, Came::Whole(Ok(reply)) if reply.is_foreign());
        let mut outcomes = Outcomes::read(self.pending.len(), came);
        let mut round = Round::default();
        for (index, mut pending) in self.pending.into_iter().enumerate() {
            let (trouble, asked) = match outcomes.of(index) {
                Ok(reply) if reply.is_busy() => {
                    (Trouble::Busy(reply.refusal()), reply.retry_after())
                }
                Ok(reply) if is_foreign => (Trouble::Foreign(reply.refusal()), None),
                Ok(reply) => {
                    round.answered.push((pending.line, Ok(reply)));
                    continue;
                }
                Err(away) => (Trouble::Away(away), None),
            };
            match again(trouble, asked, &mut pending.tries) {
                Ok(pause) => {
                    round.pause = round.pause.max(pause);
                    round.rest.push(pending);
                }
                Err(trouble) => round.answered.push((pending.line, Err(trouble))),
            }
        }
        round
    }
}

/// What a call came to.
#[derive(Default)]
pub(super) struct Round {
    /// Those that are over with it.
    pub(super) answered: Vec<Answered>,
    /// Those to send again, after this pause.
    pub(super) rest: Group,
    pub(super) pause: Duration,
}

impl Round {
    /// Takes what another call came to as well.
    pub(super) fn add(&mut self, other: Self) {
        self.answered.extend(other.answered);
        other.rest.pending.into_iter().for_each(|line| self.rest.push(line));
        self.pause = self.pause.max(other.pause);
    }
}

/// What is read of an outcome.
#[derive(Deserialize)]
struct Told<'a> {
    index: usize,
    status: u16,
    #[serde(default)]
    unread: bool,
    retry_after: Option<u64>,
    #[serde(borrow)]
    problem: Option<&'a RawValue>,
}

/// The outcomes of a call.
struct Outcomes {
    own: Vec<Option<Reply>>,
    /// Of those that have none of their own.
    others: Result<Reply, NoAnswer>,
}

impl Outcomes {
    fn read(lines: usize, came: Came) -> Self {
        let mut own: Vec<Option<Reply>> = Vec::new();
        own.resize_with(lines, || None);
        let (body, mut others) = match came {
            Came::Whole(others) => return Self { own, others },
            Came::Lines(body, end) => (body, Err(end)),
        };
        // What stands behind the last line end did not come whole.
        for line in body.split_inclusive(|byte| *byte == b'\n').filter(|it| it.ends_with(b"\n")) {
            let Ok(told) = serde_json::from_slice::<Told>(line) else { continue };
            let Some(reply) = told.reply(line) else { continue };
            if told.unread {
                others = Ok(reply);
            } else if let Some(place) = own.get_mut(told.index) {
                *place = Some(reply);
            }
        }
        Self { own, others }
    }

    fn of(&mut self, index: usize) -> Result<Reply, NoAnswer> {
        match self.own.get_mut(index).and_then(Option::take) {
            Some(reply) => Ok(reply),
            None => self.others.as_ref().map(Reply::copy).map_err(Clone::clone),
        }
    }
}

/// The status of each of so many lines that this stream of outcomes tells of, before it breaks off.
pub(crate) fn outcomes(lines: usize, answer: Bytes) -> Vec<Option<u16>> {
    let cut = NoAnswer::Cut { server: String::new() };
    let mut outcomes = Outcomes::read(lines, Came::Lines(answer, cut));
    (0..lines).map(|index| outcomes.of(index).ok().map(|reply| reply.status.as_u16())).collect()
}

impl Told<'_> {
    /// What the line alone would have been answered with; `line` is its outcome.
    fn reply(&self, line: &[u8]) -> Option<Reply> {
        let mut headers = HeaderMap::new();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        let body = self.problem.map_or(line, |problem| problem.get().as_bytes());
        let status = StatusCode::from_u16(self.status).ok()?;
        Some(Reply::part(status, headers, Bytes::copy_from_slice(body)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    const SERVER: &str = "http://h:1";

    fn cut() -> NoAnswer {
        NoAnswer::Cut { server: SERVER.to_owned() }
    }

    fn group(lines: u64) -> Group {
        let mut group = Group::default();
        for number in 1..=lines {
            let custom_id = RawValue::from_string("\"c\"".to_owned()).unwrap();
            let line = Line { number, custom_id, generation: None };
            let _share = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            let (item, tries) = (Bytes::from_static(b"{}"), Tries::default());
            group.push(Pending { line, item, _share, tries });
        }
        group
    }

    /// Each line that is over by its number and status, 0 for none; then those to send again, and after how long.
    fn round(lines: u64, came: Came, patient: bool) -> (Vec<(u64, u16)>, Vec<u64>, u64) {
        let again = |trouble, asked: Option<Duration>, _: &mut Tries| {
            if patient { Ok(asked.unwrap_or(Duration::from_secs(7))) } else { Err(trouble) }
        };
        let round = group(lines).round(came, again);
        let status =
            |reply: &Result<Reply, Trouble>| reply.as_ref().map_or(0, |it| it.status.as_u16());
        let over = round.answered.iter().map(|(line, reply)| (line.number, status(reply)));
        let rest = round.rest.pending.iter().map(|it| it.line.number);
        (over.collect(), rest.collect(), round.pause.as_secs())
    }

    fn lines(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn each_line_has_its_own_outcome_and_the_busy_ones_come_again() {
        let text = r#"{"index":0,"status":202,"generation":"ab"}
{"index":1,"status":429,"retry_after":9,"problem":{"type":"/problems/queue-full","detail":"d"}}
{"index":2,"status":400,"problem":{"type":"/problems/too-deep","detail":"d"}}
{"index":3,"status":503,"retry_after":2,"problem":{"type":"/problems/outcome-unknown","detail":"d"}}
"#;
        let came = || Came::Lines(lines(text), cut());
        assert_eq!(round(4, came(), true), (vec![(1, 202), (3, 400)], vec![2, 4], 9));
        let impatient = vec![(1, 202), (2, 0), (3, 400), (4, 0)];
        assert_eq!(round(4, came(), false), (impatient, vec![], 0));
    }

    #[test]
    fn what_is_told_before_an_answer_breaks_off_counts() {
        let text = "{\"index\":0,\"status\":202}\n{\"index\":1,\"status\":202}";
        let came = Came::Lines(lines(text), cut());
        assert_eq!(round(3, came, true), (vec![(1, 202)], vec![2, 3], 7));
    }

    #[test]
    fn a_last_word_holds_for_all_that_were_not_read() {
        let text = r#"{"index":0,"status":202}
{"index":1,"status":503,"retry_after":3,"unread":true,"problem":{"type":"/problems/draining","detail":"d"}}
"#;
        let came = Came::Lines(lines(text), cut());
        assert_eq!(round(3, came, true), (vec![(1, 202)], vec![2, 3], 3));
    }

    #[test]
    fn a_no_to_the_call_is_one_to_each_line() {
        let no = |status: u16| {
            let body = lines(r#"{"type":"/problems/x","detail":"d"}"#);
            Came::Whole(Ok(Reply::part(status.try_into().unwrap(), HeaderMap::new(), body)))
        };
        assert_eq!(round(2, no(404), true), (vec![(1, 404), (2, 404)], vec![], 0));
        assert_eq!(round(2, no(503), true), (vec![], vec![1, 2], 7));
        assert_eq!(round(2, Came::Whole(Err(cut())), true), (vec![], vec![1, 2], 7));
    }

    #[test]
    fn a_page_of_something_else_is_an_outcome_of_no_line() {
        for status in [200, 202, 302, 404] {
            let page = Reply::part(status.try_into().unwrap(), HeaderMap::new(), lines("<html>"));
            let came = Came::Whole(Ok(page));
            assert_eq!(round(2, came, false), (vec![(1, 0), (2, 0)], vec![], 0), "{status}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_for_whoever_says_so_is_over() {
        let page = Reply::part(StatusCode::PAYLOAD_TOO_LARGE, HeaderMap::new(), lines("<html>"));
        let came = Came::Whole(Ok(page));
        assert!(group(1).halves(&came).is_none());
        let [later, first] = group(5).halves(&came).unwrap();
        let numbers = |half: &Group| half.pending.iter().map(|it| it.line.number).collect();
        let halves: [Vec<_>; 2] = [numbers(&first), numbers(&later)];
        assert_eq!(halves, [vec![1, 2], vec![3, 4, 5]]);
        assert_eq!(later.body().len(), later.bytes);
        assert_eq!(round(1, came, true), (vec![(1, 413)], vec![], 0));
    }

    #[test]
    fn a_group_takes_so_many_lines_or_bytes_and_a_longer_line_alone() {
        assert_eq!(group(2).body(), "{}\n{}\n");
        assert!(!group(255).is_full() && group(256).is_full());
        let large = Bytes::from(vec![b' '; MOST_BYTES + 1]);
        assert!(group(0).has_room_for(&large) && !group(1).has_room_for(&large));
        let rest = large.slice(..MOST_BYTES - group(1).body().len());
        assert!(!group(1).has_room_for(&rest), "its line end is sent as well");
        assert!(group(1).has_room_for(&rest.slice(1..)));
    }
}
