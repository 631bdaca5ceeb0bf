//! What the roles say, as calls of the model; and the model's answers in the names that the roles use.

use holdfast_model::{
    call::{Call, Claim, Settle},
    names,
    state::{Answer, Failure, Fence, Generation, Handle, Id, Session, Word},
    value::Value,
};

/// The fields of a queue's policy.
const POLICY: [&str; 6] =
    ["max_lapses", "retention", "dead_retention", "capacity", "capacity_bytes", "in_flight"];

/// The names of worker sessions, which the roles draw and the model counts.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Vec<u8>>);

impl Sessions {
    fn fence(&mut self, bytes: &[u8]) -> Option<Fence> {
        let (session, call) = bytes.split_at_checked(16)?;
        let known = self.0.iter().position(|known| known == session);
        let at = known.unwrap_or_else(|| {
            self.0.push(session.to_vec());
            self.0.len() - 1
        });
        let call = u64::from_str_radix(std::str::from_utf8(call).ok()?, 16).ok()?;
        Some(Fence { session: Session(u8::try_from(at).ok()?), call })
    }

    /// Puts the roles' names of sessions in the places of the model's.
    pub(crate) fn rename(&self, value: &mut Value) {
        match value {
            Value::Array(values) | Value::Push(values) => {
                values.iter_mut().for_each(|value| self.rename(value));
            }
            Value::Bytes(bytes) => self.rename_bytes(bytes),
            _ => {}
        }
    }

    pub(crate) fn rename_bytes(&self, bytes: &mut [u8]) {
        for (at, real) in self.0.iter().enumerate() {
            let name = names::session(Session(at as u8)).into_bytes();
            let mut from = 0;
            while let Some(found) =
                bytes[from..].windows(name.len()).position(|window| window == name)
            {
                let start = from + found;
                bytes[start..start + name.len()].copy_from_slice(real);
                from = start + name.len();
            }
        }
    }
}

/// A call, by the arguments of its script; none: it is not one that the roles of a play make.
pub(crate) fn call(script: &str, args: &[Vec<u8>], sessions: &mut Sessions) -> Option<Call> {
    Some(match script {
        "claim" => Call::Claim(Claim {
            fence: sessions.fence(args.first()?)?,
            free: number(args.get(1)?)?,
            lease: number(args.get(2)?)?,
            budget: number(args.get(3)?)?,
            may_suspect: args.get(4)? == b"1",
            trusted_until: number(args.get(5)?)?,
            along: number(args.get(6)?)?,
        }),
        "renew" => {
            let (lease, rows) = args.split_first()?;
            Call::Renew { lease: number(lease)?, leases: leases(rows, sessions)? }
        }
        "settle" => {
            let (rows, []) = args.as_chunks::<3>() else { return None };
            Call::Settle(rows.iter().map(|row| settle(row, sessions)).collect::<Option<_>>()?)
        }
        "reclaim" => {
            let (limit, rows) = args.split_first()?;
            Call::Reclaim { limit: size(limit)?, named: leases(rows, sessions)? }
        }
        "promote" if args.len() == 1 => {
            Call::Promote { limit: size(args.first()?)?, named: Vec::new() }
        }
        "expire" => Call::Expire { limit: size(args.first()?)? },
        "sweep" => Call::Sweep { limit: size(args.first()?)?, age: number(args.get(1)?)? },
        "policy" => {
            let (rows, []) = args.get(2..)?.as_chunks::<2>() else { return None };
            let row = |[field, value]: &[Vec<u8>; 2]| {
                let field = POLICY.into_iter().find(|known| known.as_bytes() == field)?;
                let value = if value.is_empty() { None } else { Some(number(value)?) };
                Some((field, value))
            };
            let rows = rows.iter().map(row).collect::<Option<_>>()?;
            Call::Policy { schema: number(args.first()?)?, write: args.get(1)? == b"1", rows }
        }
        "ring" => Call::Ring,
        "depth" => Call::Depth,
        _ => return None,
    })
}

fn leases(rows: &[Vec<u8>], sessions: &mut Sessions) -> Option<Vec<(Fence, Handle)>> {
    let (rows, []) = rows.as_chunks::<2>() else { return None };
    rows.iter().map(|[fence, it]| Some((sessions.fence(fence)?, handle(it)?))).collect()
}

fn settle(row: &[Vec<u8>; 3], sessions: &mut Sessions) -> Option<Settle> {
    let [member, end, body] = row;
    let (fence, it) = (member.get(..32)?, member.get(33..)?);
    let (word, rest) = end.split_first()?;
    let (value, failure) = rest.split_first_chunk()?;
    let words = [Word::Ack, Word::Retry, Word::Release, Word::Bury];
    Some(Settle {
        fence: sessions.fence(fence)?,
        handle: handle(it)?,
        word: words.into_iter().find(|known| known.mark() == *word)?,
        number: u64::from_be_bytes(*value),
        failure: if failure.is_empty() { None } else { Some(self::failure(failure)?) },
        answer: if body.is_empty() { None } else { Some(answer(body)?) },
    })
}

fn failure(bytes: &[u8]) -> Option<Failure> {
    let [code, high, low] = *<&[u8; 3]>::try_from(bytes).ok()?;
    Some((code, u16::from_be_bytes([high, low])))
}

/// Which answer of the gateway it is, if it is one to the last byte.
fn answer(bytes: &[u8]) -> Option<Answer> {
    let answer = Answer(bytes.get(4).copied().unwrap_or(0));
    (names::answer(answer) == bytes).then_some(answer)
}

pub(crate) fn handle(bytes: &[u8]) -> Option<Handle> {
    let (sequence, rest) = bytes.split_first_chunk::<8>()?;
    let (generation, key) = rest.split_first_chunk::<8>()?;
    let (_, number) = generation.split_last_chunk::<4>()?;
    let handle = Handle {
        sequence: u64::from_be_bytes(*sequence),
        generation: Generation(u32::from_be_bytes(*number)),
        id: Id(*key.first()?),
    };
    (names::handle(handle) == bytes).then_some(handle)
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn size(digits: &[u8]) -> Option<usize> {
    number(digits)?.try_into().ok()
}
