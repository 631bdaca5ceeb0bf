//! The bytes behind the model's numbers. They sort as the numbers do, and hold whatever a careless script would trip over.

use crate::{
    render::Packed,
    state::{Answer, Body, Fence, Generation, Handle, Id, NOBODY, Names, Session},
};

const TENANTS: [&str; 2] = ["ann", "bob"];
/// How long the bodies are that can be submitted.
const SIZES: [usize; 4] = [2, 40, 150, 400];
const ANSWERS: [usize; 4] = [0, 3, 60, 300];

/// An id's field in every hash.
pub fn key(id: Id) -> [u8; 16] {
    let mut key = *b"\0|\0\r\n\xff{}%s-key..";
    key[0] = id.0;
    key
}

/// The random bits of a generation.
pub fn generation(generation: Generation) -> [u8; 8] {
    let mut bytes = *b"\xa0|\0\xff....";
    bytes[4..].copy_from_slice(&generation.0.to_be_bytes());
    bytes
}

/// The name of a session, in hex digits.
pub fn session(session: Session) -> String {
    format!("{:016x}", 0xab00_0000_0000_0000 + u64::from(session.0))
}

/// A fence, in hex digits; nobody's is empty.
pub fn fence(fence: Fence) -> Vec<u8> {
    if fence == NOBODY {
        return vec![0; 32];
    }
    format!("{}{:016x}", session(fence.session), fence.call).into_bytes()
}

/// A member of the sorted sets.
pub fn handle(handle: Handle) -> Vec<u8> {
    let mut bytes = handle.sequence.to_be_bytes().to_vec();
    bytes.extend(generation(handle.generation));
    bytes.extend(key(handle.id));
    bytes
}

/// A member of `leased`.
pub fn lease(of: Fence, of_handle: Handle) -> Vec<u8> {
    [fence(of), b"|".to_vec(), handle(of_handle)].concat()
}

/// What the id rule compares: submissions of one id. They differ in their last byte, and are whole before it.
pub fn digest(body: Body) -> [u8; 32] {
    let mut digest = [0xd1; 32];
    digest[31] = body.0;
    digest
}

fn tenant(id: Id) -> &'static str {
    TENANTS[usize::from(id.0) % 2]
}

fn own_lane(id: Id) -> &'static str {
    match id.0 % 4 {
        1 => "gpu",
        2 => "bob",
        _ => "",
    }
}

/// The lane that a request is counted in: its own, or its tenant's.
pub fn lane(id: Id) -> &'static str {
    match own_lane(id) {
        "" => tenant(id),
        lane => lane,
    }
}

fn name(id: Id) -> String {
    format!("r\0|-{}", id.0)
}

fn name_size(id: Id) -> usize {
    4 + 1 + usize::from(id.0 > 9) + usize::from(id.0 > 99)
}

/// Tenant, id and lane, packed; of a request whose names are lost, three empty ones.
pub fn packed(names: Names) -> Vec<u8> {
    let id = match names {
        Names::Of(id) => id,
        Names::Lost => return vec![0; 6],
        Names::Garbled(how) => return garbled(how).to_vec(),
    };
    let name = name(id);
    let mut packed = Packed::default();
    for part in [tenant(id), &name, own_lane(id)] {
        packed.short(part.as_bytes());
    }
    packed.0
}

/// How long these names are when packed.
pub fn packed_size(names: Names) -> usize {
    match names {
        Names::Of(id) => 6 + tenant(id).len() + name_size(id) + own_lane(id).len(),
        names => packed(names).len(),
    }
}

/// How long what the `request` hash holds is.
pub fn request_size(id: Id, body: Body) -> usize {
    5 + 2 + packed_size(Names::Of(id)) + envelope(body).len() + body_size(Some(body))
}

/// How long a packed answer is.
pub fn answer_size(answer: Answer) -> usize {
    4 + ANSWERS[usize::from(answer.0) % ANSWERS.len()]
}

/// Three lengths, one of which lies or is cut off.
fn garbled(how: u8) -> &'static [u8] {
    match how {
        0 => b"\0\x03ann\0\xffr\0\0",
        1 => b"\0\x03ann\0\x01r\0\x09x",
        2 => b"\0\x03ann\0\x01r\0",
        3 => b"\0\x03ann\0",
        4 => b"\0\xffann",
        _ => b"\0",
    }
}

/// How long a body is.
pub fn body_size(body: Option<Body>) -> usize {
    body.map_or(0, |body| SIZES[usize::from(body.0) % SIZES.len()])
}

/// What the `request` hash holds: names, envelope, body.
pub fn request(id: Id, body: Body) -> Vec<u8> {
    let mut packed = Packed::default();
    packed.byte(1).short(&self::packed(Names::Of(id)));
    let envelope = envelope(body);
    packed.u32(envelope.len()).bytes(envelope).bytes(&vec![body.0; body_size(Some(body))]);
    packed.0
}

fn envelope(body: Body) -> &'static [u8] {
    if body.0 % 2 == 1 { br#"{"path":"/v1/x"}"# } else { b"" }
}

/// A packed head and body.
pub fn answer(answer: Answer) -> Vec<u8> {
    let mut packed = Packed::default();
    packed.u32(0).bytes(&vec![answer.0; ANSWERS[usize::from(answer.0) % ANSWERS.len()]]);
    packed.0
}

/// A queue's name.
pub fn queue(name: u8) -> Vec<u8> {
    format!("queue-{name}").into_bytes()
}

/// What is registered of a queue.
pub fn queue_value(value: u8) -> Vec<u8> {
    format!("{value} 1").into_bytes()
}

/// What is registered of a worker.
pub fn worker_value(value: u8) -> Vec<u8> {
    vec![b'w', 0, value]
}
