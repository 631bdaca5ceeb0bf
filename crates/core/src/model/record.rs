//! The one published outcome of a generation.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Generation, Identity, Undecodable, wire::Reader};

const VERSION: u8 = 1;

/// How a generation ended. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// The gateway's answer, whatever its status.
    Answered = 1,
    /// The deadline passed with no answer to show.
    DeadlineExceeded = 2,
    /// Cancelled before an answer.
    Cancelled = 3,
    /// The last attempt failed before an answer.
    GaveUp = 4,
    /// The last lapse that was allowed.
    KilledWorkers = 5,
    /// Ticket, envelope or body missing or not decodable.
    Unusable = 6,
    /// Over the queue's limit; the head of the answer is kept.
    AnswerTooLarge = 7,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 7] = [
        Self::Answered,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::GaveUp,
        Self::KilledWorkers,
        Self::Unusable,
        Self::AnswerTooLarge,
    ];

    /// The word that people read.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::DeadlineExceeded => "deadline-exceeded",
            Self::Cancelled => "cancelled",
            Self::GaveUp => "gave-up",
            Self::KilledWorkers => "killed-workers",
            Self::Unusable => "unusable",
            Self::AnswerTooLarge => "answer-too-large",
        }
    }

    /// Whether the request is kept whole, for an operator.
    pub fn is_dead(self) -> bool {
        self as u8 >= Self::GaveUp as u8
    }

    pub(crate) fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| *outcome as u64 == number)
    }
}

/// Why an attempt failed. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FailureCode {
    /// No connection to the gateway.
    Connect = 1,
    /// No connection in time.
    ConnectTimeout = 2,
    /// The TLS handshake failed.
    Tls = 3,
    /// The connection broke before a whole answer.
    Reset = 4,
    /// The answer stopped flowing.
    Stall = 5,
    /// The attempt took too long.
    AttemptTimeout = 6,
    /// No HTTP answer, or one whose head cannot be trusted.
    MalformedHead = 7,
    /// The body ended early.
    CutBody = 8,
    /// The body is not what its head says.
    LyingBody = 9,
    /// A status that is retried.
    Status = 10,
    /// The lease ended before the attempt did.
    LeaseLost = 11,
    /// The worker was stopped.
    WorkerDrained = 12,
    /// Ticket, envelope or body missing or not decodable.
    Unusable = 13,
    /// The answer is over the queue's limit.
    TooLarge = 14,
    /// A fault of our own.
    Internal = 15,
}

impl FailureCode {
    /// Every code.
    pub const ALL: [Self; 15] = [
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Reset,
        Self::Stall,
        Self::AttemptTimeout,
        Self::MalformedHead,
        Self::CutBody,
        Self::LyingBody,
        Self::Status,
        Self::LeaseLost,
        Self::WorkerDrained,
        Self::Unusable,
        Self::TooLarge,
        Self::Internal,
    ];

    /// The word that people and metrics use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect-timeout",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::Stall => "stall",
            Self::AttemptTimeout => "attempt-timeout",
            Self::MalformedHead => "malformed-head",
            Self::CutBody => "cut-body",
            Self::LyingBody => "lying-body",
            Self::Status => "status",
            Self::LeaseLost => "lease-lost",
            Self::WorkerDrained => "worker-drained",
            Self::Unusable => "unusable",
            Self::TooLarge => "too-large",
            Self::Internal => "internal",
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|code| *code as u8 == number)
    }
}

/// Why an attempt failed, and the gateway's status if it gave one (else 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub code: FailureCode,
    /// The gateway's status, or 0.
    pub status: u16,
}

impl Failure {
    pub(crate) fn pack(self) -> [u8; 3] {
        let [high, low] = self.status.to_be_bytes();
        [self.code as u8, high, low]
    }

    /// Reads code and status; a code of 0, or one that a newer version wrote, is no failure to show.
    pub(super) fn unpack(code: u8, status: u16) -> Option<Self> {
        FailureCode::from_number(code).map(|code| Self { code, status })
    }
}

/// What the gateway answered: selected headers and the body, as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Name and value of each header that is kept; values may be any bytes.
    pub headers: Vec<(String, Bytes)>,
    /// The body, exactly as it came.
    pub body: Bytes,
}

impl Answer {
    /// Packs it: u32 length of the head ‖ (u16 length ‖ name ‖ u32 length ‖ value)… ‖ body.
    pub(crate) fn pack(&self) -> Bytes {
        let mut head = Vec::new();
        for (name, value) in &self.headers {
            head.put_u16(name.len() as u16);
            head.put_slice(name.as_bytes());
            head.put_u32(value.len() as u32);
            head.put_slice(value);
        }
        let mut packed = BytesMut::with_capacity(4 + head.len() + self.body.len());
        packed.put_u32(head.len() as u32);
        packed.put_slice(&head);
        packed.put_slice(&self.body);
        packed.freeze()
    }

    /// How many bytes it packs to.
    pub(crate) fn packed_size(&self) -> usize {
        let pair = |(name, value): &(String, Bytes)| 2 + name.len() + 4 + value.len();
        4 + self.headers.iter().map(pair).sum::<usize>() + self.body.len()
    }

    fn unpack(mut reader: Reader) -> Result<Self, Undecodable> {
        let broken = reader.broken();
        let mut head = reader.long()?;
        let mut headers = Vec::new();
        while !head.is_empty() {
            let mut pair = Reader::new("record", head);
            let name = String::from_utf8(pair.short()?.into()).map_err(|_| broken)?;
            headers.push((name, pair.long()?));
            head = pair.rest();
        }
        Ok(Self { headers, body: reader.rest() })
    }

    /// The first value of a header, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers(name).next()
    }

    /// All values of a header, in their order.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &Bytes> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// How a generation ended, without its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// How it ended.
    pub outcome: Outcome,
    /// Which submission ended.
    pub generation: Generation,
    /// When, in ms of the Redis clock.
    pub ended_at: u64,
    /// The last failure before the end, if any.
    pub failure: Option<Failure>,
    /// The gateway's status; 0 without an answer.
    pub status: u16,
}

/// A value of the `result` hash.
///
/// Layout: version ‖ outcome ‖ generation ‖ ended_at u64 ms ‖ attempts u32 ‖ lapses u16 ‖ forgiven u16 ‖ last failure
/// (code u8, status u16) ‖ the gateway's status u16 ‖ u16 length ‖ names ‖ packed answer. Scripts write the part before
/// the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// How it ended.
    pub outcome: Outcome,
    /// Which submission ended.
    pub generation: Generation,
    /// When, in ms of the Redis clock.
    pub ended_at: u64,
    /// Dispatches made.
    pub attempts: u32,
    /// Leases that ran out.
    pub lapses: u16,
    /// Leases that an outage ended.
    pub forgiven: u16,
    /// The last failure before the end, if any.
    pub failure: Option<Failure>,
    /// The gateway's status; 0 without an answer.
    pub status: u16,
    /// Whose it is; none if that was lost with its ticket and request.
    pub identity: Option<Identity>,
    /// The answer; empty without one.
    pub answer: Answer,
}

impl Record {
    /// Reads it; the body is a slice of `packed`.
    pub fn unpack(packed: Bytes) -> Result<Self, Undecodable> {
        let mut reader = Reader::new("record", packed);
        if reader.u8()? != VERSION {
            return Err(reader.broken());
        }
        let outcome = Outcome::from_number(reader.u8()?.into()).ok_or(reader.broken())?;
        let generation = Generation::from(reader.array::<8>()?);
        let ended_at = reader.u64()?;
        let attempts = reader.u32()?;
        let (lapses, forgiven) = (reader.u16()?, reader.u16()?);
        let failure = Failure::unpack(reader.u8()?, reader.u16()?);
        let status = reader.u16()?;
        let identity = Identity::unpack(reader.short()?).ok().map(|(identity, _)| identity);
        let answer = Answer::unpack(reader)?;
        Ok(Self {
            outcome,
            generation,
            ended_at,
            attempts,
            lapses,
            forgiven,
            failure,
            status,
            identity,
            answer,
        })
    }

    /// What stands before the names, from the first bytes of a record.
    pub fn head(packed: &[u8]) -> Option<RecordHead> {
        let fixed = Bytes::copy_from_slice(packed.get(..31)?);
        let mut reader = Reader::new("record", fixed);
        if reader.u8().ok()? != VERSION {
            return None;
        }
        let outcome = Outcome::from_number(reader.u8().ok()?.into())?;
        let generation = Generation::from(reader.array::<8>().ok()?);
        let ended_at = reader.u64().ok()?;
        let _counts = reader.bytes(8).ok()?;
        let failure = Failure::unpack(reader.u8().ok()?, reader.u16().ok()?);
        Some(RecordHead { outcome, generation, ended_at, failure, status: reader.u16().ok()? })
    }

    /// Outcome and end alone, from the first bytes of a record.
    pub fn peek(packed: &[u8]) -> Option<(Outcome, u64)> {
        let outcome = Outcome::from_number(u64::from(*packed.get(1)?))?;
        let ended_at = u64::from_be_bytes(packed.get(10..18)?.try_into().ok()?);
        Some((outcome, ended_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_byte_for_byte() {
        let answer = Answer {
            headers: vec![("content-type".to_owned(), Bytes::from_static(b"text/pl\xe9in"))],
            body: Bytes::from_static(b"\0\xff{}"),
        };
        assert_eq!(Answer::unpack(Reader::new("record", answer.pack())).unwrap(), answer);
    }

    #[test]
    fn every_number_that_is_stored_is_read_back() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_number(outcome as u64), Some(outcome));
        }
        for code in FailureCode::ALL {
            assert_eq!(FailureCode::from_number(code as u8), Some(code));
        }
        assert_eq!(Outcome::from_number(0), None);
    }

    #[test]
    fn a_cut_record_is_refused() {
        assert!(Record::unpack(Bytes::from_static(b"\x01\x01")).is_err());
        assert!(Record::unpack(Bytes::new()).is_err());
    }
}
