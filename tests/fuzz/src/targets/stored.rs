//! What lies in Redis: names, tickets, requests, records, messages. docs/protocol.md has the layouts.

use std::num::NonZeroU32;

use bytes::{BufMut, Bytes};
use holdfast_core::model::{
    Draft, Fence, Generation, Handle, Identity, Key, Outcome, QueueName, Record, Request,
    RequestId, Session, TenantName, Ticket,
};

use super::rules::is_name;

/// Names: of people, and of fixed width.
pub(super) fn names(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!(QueueName::try_from(text).is_ok(), is_name(text));
        assert_eq!(TenantName::try_from(text).is_ok(), is_name(text));
        let is_hex = |digits| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        assert_eq!(text.parse::<Generation>().is_ok(), is_hex(16));
        assert_eq!(text.parse::<Session>().is_ok(), is_hex(16));
        let handle = text.parse::<Handle>();
        assert_eq!(handle.is_ok(), is_hex(64));
        if let Ok(handle) = handle {
            assert_eq!(handle.to_string(), text.to_ascii_lowercase());
            let parts = (handle.sequence(), handle.generation(), handle.key());
            assert_eq!(Handle::new(parts.0, parts.1, parts.2), handle);
        }
    }
    let id = RequestId::try_from(Bytes::copy_from_slice(bytes));
    assert_eq!(id.is_ok(), (1..=1024).contains(&bytes.len()));
    let Ok(id) = id else { return };
    assert!(id.to_string().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "safe in a log");
    let identity = Identity { tenant: "t".try_into().unwrap(), id };
    for shards in [1, 7, u32::MAX] {
        let place = identity.place(NonZeroU32::new(shards).unwrap());
        assert!(place.shard < shards);
        assert_eq!(place.key, identity.place(NonZeroU32::MIN).key, "whatever the shards");
    }
}

/// Members of `leased`, and messages of the two channels.
pub(super) fn members(bytes: &[u8]) {
    let is_member = bytes.len() == 65 && bytes[32] == b'|';
    let member = Fence::split_member(bytes);
    assert_eq!(member.is_some(), is_member);
    if let Some((fence, handle)) = member {
        assert_eq!([&fence.as_bytes()[..], b"|", &handle.as_bytes()[..]].concat(), bytes);
        assert!(fence.to_string().is_ascii());
        if let Some(session) = fence.session() {
            assert_eq!(Fence::new(session, 7).session(), Some(session));
        }
    }
    let owners = holdfast_worker::foreign::cancelled(bytes);
    let told: Vec<u8> = owners
        .iter()
        .flat_map(|(fence, handle)| [*fence.as_bytes(), *handle.as_bytes()].concat())
        .collect();
    assert_eq!(told, bytes[..bytes.len() / 64 * 64]);
}

/// A number where the layout of a ticket has it: `at` counts from 1, as the page does.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at - 1..at - 1 + length].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Tickets.
pub(super) fn ticket(bytes: &[u8]) {
    let read = Ticket::unpack(Bytes::copy_from_slice(bytes));
    let is_whole = bytes.first() == Some(&1)
        && bytes.len() >= 189
        && bytes.len() - 189 >= number(bytes, 188, 2) as usize;
    assert_eq!(read.is_ok(), is_whole);
    let Ok(ticket) = read else { return };
    for (is, at, length) in [
        (ticket.cancel_asked.into(), 2, 1),
        (ticket.sequence, 3, 8),
        (ticket.deadline, 51, 8),
        (ticket.not_before, 59, 8),
        (ticket.submitted_at, 67, 8),
        (ticket.body_size.into(), 75, 4),
        (ticket.attempts.into(), 79, 4),
        (ticket.lapses.into(), 83, 2),
        (ticket.forgiven.into(), 85, 2),
        (ticket.claimed_at, 119, 8),
    ] {
        // Of the flags only the first bit is known.
        let stored = number(bytes, at, length) & if at == 2 { 1 } else { u64::MAX };
        assert_eq!(is, stored, "at {at}");
    }
    assert_eq!(ticket.generation.as_bytes()[..], bytes[10..18]);
    assert_eq!(ticket.digest.0[..], bytes[18..50]);
    let fence = ticket.fence.map_or([0; 32], |fence| *fence.as_bytes());
    assert_eq!(fence[..], bytes[86..118]);
    if let Some((fence, _)) = ticket.last_settle {
        assert_eq!(fence.as_bytes()[..], bytes[126..158]);
    }
    let handle = ticket.handle(Key::from([7; 16]));
    assert_eq!((handle.sequence(), handle.generation()), (ticket.sequence, ticket.generation));
    drafted(&ticket);
}

/// Whose a ticket is reads back from a new ticket of the same.
fn drafted(ticket: &Ticket) {
    let Some(identity) = &ticket.identity else {
        assert!(ticket.lane.is_empty());
        return;
    };
    valid(identity);
    let &Ticket { generation, digest, deadline, not_before, body_size, .. } = ticket;
    let draft = Draft { generation, digest, deadline, not_before, body_size };
    let again = Ticket::unpack(draft.pack(identity, &ticket.lane)).expect("a ticket of ours");
    let said = |it: &Ticket| (it.generation, it.digest, it.deadline, it.not_before, it.body_size);
    assert_eq!(said(&again), said(ticket));
    assert_eq!((&again.identity, &again.lane), (&ticket.identity, &ticket.lane));
    assert_eq!((again.attempts, again.lapses, again.fence), (0, 0, None));
}

/// What was read as an identity is one.
fn valid(identity: &Identity) {
    assert!(is_name(identity.tenant.as_str()));
    assert!((1..=1024).contains(&identity.id.as_bytes().len()));
}

/// Requests with their envelopes.
pub(super) fn request(bytes: &[u8]) {
    let Ok(request) = Request::unpack(Bytes::copy_from_slice(bytes)) else { return };
    valid(&request.identity);
    assert!(bytes.ends_with(&request.body), "byte for byte");
    let packed = request.pack().expect("what was read can be written");
    assert_eq!(Request::unpack(packed), Ok(request));
}

/// Records with their answers.
pub(super) fn record(bytes: &[u8]) {
    let (peek, head) = (Record::peek(bytes), Record::head(bytes));
    if let Some(head) = head {
        assert_eq!(peek, Some((head.outcome, head.ended_at)));
    }
    let Ok(record) = Record::unpack(Bytes::copy_from_slice(bytes)) else { return };
    let head = head.expect("a record has a head");
    assert_eq!(
        (head.outcome, head.generation, head.ended_at, head.failure, head.status),
        (record.outcome, record.generation, record.ended_at, record.failure, record.status)
    );
    assert!(Outcome::ALL.contains(&record.outcome));
    if let Some(identity) = &record.identity {
        valid(identity);
    }
    assert!(bytes.ends_with(&record.answer.body), "byte for byte");
    for (name, _) in &record.answer.headers {
        assert!(record.answer.header(name).is_some());
    }
    // The head of the answer has a length of its own, and is used up to its end.
    let mut packed = Vec::new();
    for (name, value) in &record.answer.headers {
        packed.put_u16(name.len() as u16);
        packed.put_slice(name.as_bytes());
        packed.put_u32(value.len() as u32);
        packed.put_slice(value);
    }
    let answer = [&(packed.len() as u32).to_be_bytes()[..], &packed, &record.answer.body].concat();
    let at = bytes.len() - answer.len();
    assert_eq!(bytes[at..], answer);
}
