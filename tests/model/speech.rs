//! How a call and its reply are put into words: ARGV of each script, and its answers.

mod spoil;

use holdfast_core::keys::ShardKeys;

use crate::{
    call::{Call, Claim, Item, Overrule, Settle},
    names,
    render::Packed,
    reply::{Part, Reply},
    state::{Fence, Handle, Ms},
    step,
    value::Value,
};

/// Arguments of a script.
type Args = Vec<Vec<u8>>;

impl Call {
    /// ARGV.
    pub fn args(&self) -> Args {
        match self {
            Self::Submit { guard, items } => {
                rows(vec![text(guard), limits(items)], items.iter().map(item))
            }
            Self::Claim(it) => claim(it),
            Self::Renew { lease: length, leases } => {
                rows(vec![text(length)], leases.iter().map(lease))
            }
            Self::Settle(them) => rows(Vec::new(), them.iter().map(settle)),
            Self::Cancel(them) => them.iter().map(|handle| names::handle(*handle)).collect(),
            Self::Redrive(them) => {
                let row = |(handle, generation, deadline): &(_, _, _)| {
                    vec![
                        names::handle(*handle),
                        names::generation(*generation).into(),
                        text(deadline),
                    ]
                };
                rows(Vec::new(), them.iter().map(row))
            }
            Self::Reclaim { limit, named } => rows(vec![text(limit)], named.iter().map(lease)),
            Self::Promote { limit, named } => rows(vec![text(limit)], named.iter().map(due)),
            Self::Expire { limit } => vec![text(limit)],
            Self::Sweep { limit, age } => vec![text(limit), text(age)],
            Self::Read { whole, tick, room, ids } => rows(
                vec![text(whole), flag(*tick), text(room)],
                ids.iter().map(|id| vec![names::key(*id).into()]),
            ),
            Self::Policy { schema, write, rows: them } => {
                let row =
                    |(field, value): &(&str, _)| vec![field.as_bytes().to_vec(), maybe(*value)];
                rows(vec![text(schema), flag(*write)], them.iter().map(row))
            }
            Self::Overrule(it) => overrule(it),
            Self::RegisterQueue { name, value } => {
                vec![b"queue".to_vec(), names::queue(*name), names::queue_value(*value), text(0)]
            }
            Self::RegisterWorker { name, value, age } => {
                vec![b"worker".to_vec(), vec![*name], names::worker_value(*value), text(age)]
            }
            Self::EndWorker { name, age } => {
                vec![b"ended".to_vec(), vec![*name], Vec::new(), text(age)]
            }
            Self::Ring | Self::Depth => Vec::new(),
            Self::Audit(ids) => ids.iter().map(|id| names::key(*id).into()).collect(),
            Self::Spoiled { call, way } => spoil::spoiled(call.script(), call.args(), *way),
        }
    }
}

fn item(item: &Item) -> Args {
    let ticket = step::draft(item).pack();
    vec![names::key(item.id).into(), ticket, names::request(item.id, item.body)]
}

/// What their lanes may have; nothing, where none has a limit.
fn limits(items: &[Item]) -> Vec<u8> {
    if items.iter().all(|item| item.limits.is_none()) {
        return Vec::new();
    }
    let mut packed = Packed::default();
    for item in items {
        let numbers = item
            .limits
            .map_or([0; 3], |it| [it.requests.cast_unsigned(), it.bytes.cast_unsigned(), it.rate]);
        for number in numbers {
            packed.u64(number);
        }
    }
    packed.0
}

fn claim(claim: &Claim) -> Args {
    let numbers = [claim.free, claim.lease, claim.budget].map(text);
    let rest = [flag(claim.may_suspect), text(claim.trusted_until), text(claim.along)];
    [vec![names::fence(claim.fence)], numbers.into(), rest.into()].concat()
}

fn lease((fence, handle): &(Fence, Handle)) -> Args {
    vec![names::fence(*fence), names::handle(*handle)]
}

fn due((handle, due): &(Handle, Ms)) -> Args {
    vec![names::handle(*handle), text(due)]
}

fn settle(row: &Settle) -> Args {
    let mut end = Packed::default();
    end.byte(row.word.mark()).u64(row.number);
    if let Some((code, status)) = row.failure {
        end.byte(code).u16(status);
    }
    let member = [names::fence(row.fence), b"|".to_vec(), names::handle(row.handle)].concat();
    vec![member, end.0, row.answer.map(names::answer).unwrap_or_default()]
}

fn overrule(word: &Overrule) -> Args {
    let mode = if word.decide { "decide" } else { "take" };
    vec![word.field.into(), mode.into(), text(word.version), maybe(word.value), maybe(word.total)]
}

fn text(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn flag(yes: bool) -> Vec<u8> {
    text(u8::from(yes))
}

fn maybe(number: Option<u64>) -> Vec<u8> {
    number.map(text).unwrap_or_default()
}

fn rows(head: Args, rows: impl Iterator<Item = Args>) -> Args {
    head.into_iter().chain(rows.flatten()).collect()
}

/// One answer. A word alone stands bare; so does what is told without its word, since it is told so often.
fn said(parts: &[Part]) -> Value {
    match parts {
        [Part::Word("accepted"), Part::Ticket(ticket)] => {
            let mut packed = Packed::default();
            packed.u64(ticket.sequence).u64(ticket.submitted_at);
            Value::Bytes(packed.0)
        }
        [Part::Word("held" | "swept"), alone] | [alone] => alone.value(),
        parts => Value::Array(parts.iter().map(Part::value).collect()),
    }
}

impl Reply {
    /// Whether a server's reply is this one.
    pub fn matches(&self, script: &str, value: &Value) -> bool {
        if self.refused {
            return matches!(value, Value::Error(text) if text.contains(&format!("BADARG {script}: ")));
        }
        *value == self.value()
    }

    /// What a server would say.
    pub fn value(&self) -> Value {
        let mut values = Vec::new();
        // All leases stand in one array, six values each: nothing in the place of a request that did not come along.
        let mut leases = vec![Part::Word("lease").value()];
        for parts in &self.answers {
            match &parts[..] {
                [Part::Word("lease"), told @ ..] => {
                    let told = told.iter().map(Part::value);
                    leases.extend(told.chain(std::iter::repeat(Value::Nil)).take(6));
                }
                parts => values.push(said(parts)),
            }
        }
        if leases.len() > 1 {
            values.insert(1, Value::Array(leases));
        }
        Value::Array(values)
    }

    /// What is published, as channel and message.
    pub fn messages(&self, shard: &ShardKeys) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut messages = Vec::new();
        if !self.ended.is_empty() {
            let each = |(id, generation): &(_, _)| {
                [&names::key(*id)[..], &names::generation(*generation)].concat()
            };
            messages.push((shard.ended.clone().into(), self.ended.iter().flat_map(each).collect()));
        }
        if !self.stop.is_empty() {
            let each =
                |(fence, handle): &(_, _)| [names::fence(*fence), names::handle(*handle)].concat();
            messages.push((shard.cancel.clone().into(), self.stop.iter().flat_map(each).collect()));
        }
        messages
    }
}

impl Part {
    fn value(&self) -> Value {
        match self {
            Self::Word(word) => Value::Bytes(word.as_bytes().to_vec()),
            Self::Number(number) => Value::Number(*number),
            Self::Digits(number) => Value::Bytes(text(number)),
            Self::Handle(handle) => Value::Bytes(names::handle(*handle)),
            Self::Ticket(ticket) => Value::Bytes(ticket.pack()),
            Self::Record { record, whole } => {
                let mut bytes = record.as_ref().map(|record| record.pack()).unwrap_or_default();
                if bytes.len() > *whole {
                    bytes.truncate(64);
                }
                Value::Bytes(bytes)
            }
            Self::Request(id, Some(body)) => Value::Bytes(names::request(*id, *body)),
            Self::Request(_, None) => Value::Nil,
            Self::Queue(value) => Value::Bytes(names::queue_value(*value)),
        }
    }
}
