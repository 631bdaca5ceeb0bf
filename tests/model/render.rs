//! The model's rendering of a shard: every key, field, member and score, as Redis would hold them.

use std::collections::BTreeMap;

use holdfast_core::keys::{QUEUES, ShardKeys, WORKERS};

use crate::{
    names,
    shard::{Content, Shard},
    state::{Home, Id, Map, Meta, Ms, Paper, Record, Row, State, Ticket, Word},
};

/// Bytes being laid out: big-endian numbers, lengths before what may vary.
#[derive(Default)]
pub(crate) struct Packed(pub(crate) Vec<u8>);

impl Packed {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes(&[byte])
    }

    pub(crate) fn u16(&mut self, number: u16) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, number: usize) -> &mut Self {
        self.bytes(&(number as u32).to_be_bytes())
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(crate) fn short(&mut self, bytes: &[u8]) -> &mut Self {
        self.u16(bytes.len() as u16).bytes(bytes)
    }
}

impl Ticket {
    /// How long its body is.
    pub fn body_size(&self) -> u64 {
        names::body_size(self.body) as u64
    }

    /// Its bytes.
    pub fn pack(&self) -> Vec<u8> {
        let no_fence = || vec![0; 32];
        let digest = self.body.map_or([0; 32], names::digest);
        let fence = self.fence.map_or_else(no_fence, names::fence);
        let mut to = Packed::default();
        to.byte(1).byte(self.asked.into()).u64(self.sequence);
        to.bytes(&names::generation(self.generation)).bytes(&digest);
        to.u64(self.deadline).u64(self.not_before).u64(self.submitted_at);
        to.u32(names::body_size(self.body)).u32(self.attempts as usize);
        to.u16(self.lapses).u16(self.forgiven);
        to.bytes(&fence).u64(self.claimed_at.unwrap_or(0));
        let settler = self.settled.map_or_else(no_fence, |(fence, _)| names::fence(fence));
        to.bytes(&settler).byte(self.settled.map_or(0, |(_, word)| word.mark()));
        let ((code, status), when) = self.failure.unwrap_or_default();
        to.byte(code).u16(status).u64(when);
        let previous = self.previous;
        to.bytes(&previous.map_or([0; 8], |(generation, _)| names::generation(generation)));
        let (outcome, ended) =
            previous.and_then(|(_, end)| end).map_or((0, 0), |(how, when)| (how as u8, when));
        to.byte(outcome).u64(ended).short(&names::packed(self.names));
        if self.tail {
            to.bytes(b"a newer version's\0\xff");
        }
        to.0
    }
}

impl Word {
    /// What a ticket tells it by.
    pub fn mark(self) -> u8 {
        match self {
            Self::Ack => b'a',
            Self::Retry => b't',
            Self::Release => b'r',
            Self::Bury => b'b',
        }
    }
}

impl Paper {
    fn pack(&self) -> Vec<u8> {
        match self {
            Self::Whole(ticket) => ticket.pack(),
            // Cut; of another version; with names that are longer than what is there.
            Self::Broken(0) => vec![1, 0, 0],
            Self::Broken(1) => [vec![2], vec![0; 250]].concat(),
            Self::Broken(_) => [vec![1], vec![0; 186], vec![0xff; 20]].concat(),
        }
    }
}

impl Record {
    /// Its bytes.
    pub fn pack(&self) -> Vec<u8> {
        let (code, failed) = self.failure.unwrap_or_default();
        let mut to = Packed::default();
        to.byte(1).byte(self.outcome as u8).bytes(&names::generation(self.generation));
        to.u64(self.ended_at).u32(self.attempts as usize).u16(self.lapses).u16(self.forgiven);
        to.byte(code).u16(failed).u16(self.status).short(&names::packed(self.names));
        to.bytes(&names::answer(self.answer));
        to.0
    }

    /// How many bytes it takes.
    pub fn size(&self) -> i64 {
        (33 + names::packed_size(self.names) + names::answer_size(self.answer)) as i64
    }
}

impl Row {
    fn pack(&self) -> Vec<u8> {
        let mut to = Packed::default();
        to.bytes(format!("{:016x}", self.call).as_bytes()).u64(self.seen);
        for handle in &self.handles {
            to.bytes(&names::handle(*handle));
        }
        to.0
    }
}

impl State {
    /// Everything that a server would hold.
    pub fn render(&self, keys: &ShardKeys) -> Shard {
        let mut shard = Shard::default();
        self.render_homes(keys, &mut shard);
        let key = |id: &Id| names::key(*id).to_vec();
        shard.put(&keys.ticket, hash(&self.tickets, |id, paper| (key(id), paper.pack())));
        shard.put(
            &keys.request,
            hash(&self.requests, |id, body| (key(id), names::request(*id, *body))),
        );
        shard.put(&keys.result, hash(&self.records, |id, record| (key(id), record.pack())));
        let session = |session: &_, row: &Row| (names::session(*session).into_bytes(), row.pack());
        shard.put(&keys.sessions, hash(&self.sessions, session));
        shard.put(&keys.meta, Content::Hash(self.meta.render()));
        shard.put(&keys.lanes, Content::Hash(self.render_lanes()));
        shard.put(&keys.bell, Content::List(vec![b"1".to_vec(); self.bell]));
        let queue = |name: &_, value: &_| (names::queue(*name), names::queue_value(*value));
        shard.put(QUEUES, hash(&self.queues, queue));
        let worker = |name: &_, (seen, value): &(Ms, _)| {
            (vec![*name], [&seen.to_be_bytes()[..], &names::worker_value(*value)].concat())
        };
        let ended = |name: &_, ended: &Ms| (vec![b'-', *name], ended.to_be_bytes().to_vec());
        let mut workers = hash(&self.workers, worker);
        if let (Content::Hash(rows), Content::Hash(more)) =
            (&mut workers, hash(&self.ended_workers, ended))
        {
            rows.extend(more);
        }
        shard.put(WORKERS, workers);
        shard
    }

    fn render_homes(&self, keys: &ShardKeys, shard: &mut Shard) {
        let homes = [
            (Home::Pending, &keys.pending),
            (Home::Suspects, &keys.suspects),
            (Home::Delayed, &keys.delayed),
            (Home::Finished, &keys.finished),
            (Home::Dead, &keys.dead),
        ];
        for (home, key) in homes {
            let line = self.line(home).into_iter();
            let members = line.map(|(till, it)| (names::handle(it), till.to_string()));
            shard.put(key, Content::Sorted(members.collect()));
        }
        let leases = self.leases().into_iter();
        let leases = leases.map(|(till, fence, it)| (names::lease(fence, it), till.to_string()));
        shard.put(&keys.leased, Content::Sorted(leases.collect()));
    }

    fn render_lanes(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut fields = BTreeMap::new();
        for (lane, held) in &self.lanes {
            for (name, number) in [("n", held.requests), ("b", held.bytes)] {
                if number != 0 {
                    fields.insert(format!("{name}|{lane}").into(), number.to_string().into());
                }
            }
            if let Some(till) = held.used_till {
                fields.insert(format!("r|{lane}").into(), till.to_string().into());
            }
        }
        fields
    }
}

impl Meta {
    fn render(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let counted = |number: u64| (number > 0).then(|| number.to_string());
        let text = |number: Option<u64>| number.map(|number| number.to_string());
        let mut fields = vec![
            ("seq".to_owned(), counted(self.seq)),
            ("bytes".to_owned(), self.bytes.map(|bytes| bytes.to_string())),
            ("beat".to_owned(), text(self.beat)),
            ("forgiven_to".to_owned(), text(self.forgiven_to)),
            ("longest_lease".to_owned(), text(self.longest_lease)),
            ("tick".to_owned(), counted(self.tick)),
            ("schema".to_owned(), text(self.schema)),
            ("policy_version".to_owned(), counted(self.policy_version)),
        ];
        for (field, value) in &self.policy {
            fields.push(((*field).to_owned(), Some(value.to_string())));
        }
        for (field, word) in &self.overrides {
            fields.push(((*field).to_owned(), text(word.value)));
            fields.push((format!("{field}_total"), text(word.total)));
            fields.push((format!("{field}_version"), Some(word.version.to_string())));
        }
        let present =
            fields.into_iter().filter_map(|(field, value)| Some((field.into(), value?.into())));
        let suspect =
            self.suspect.map(|(fence, handle)| (b"suspect".to_vec(), names::lease(fence, handle)));
        present.chain(suspect).collect()
    }
}

fn hash<K: Ord, V>(map: &Map<K, V>, field: impl Fn(&K, &V) -> (Vec<u8>, Vec<u8>)) -> Content {
    Content::Hash(map.iter().map(|(key, value)| field(key, value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Answer, Body, Generation, Names, Outcome};

    #[test]
    fn sizes_are_those_of_the_bytes() {
        for id in [0, 1, 2, 3, 4, 9, 10, 99, 100, 255].map(Id) {
            for body in (0..6).map(Body) {
                assert_eq!(names::request_size(id, body), names::request(id, body).len());
            }
            for (names, answer) in [(Names::Of(id), 0), (Names::Lost, 1), (Names::Garbled(0), 2)] {
                let record = Record {
                    outcome: Outcome::Answered,
                    generation: Generation(1),
                    ended_at: 0,
                    attempts: 0,
                    lapses: 0,
                    forgiven: 0,
                    failure: None,
                    status: 200,
                    names,
                    answer: Answer(answer),
                };
                assert_eq!(record.size(), record.pack().len() as i64);
            }
        }
    }
}
