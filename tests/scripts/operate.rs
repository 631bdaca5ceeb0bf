//! What operators see and do, against a real server: each home and each hold in a sentence, and each action guarded by
//! what its operator saw.

mod dead;
mod doctor;
mod overrule;
mod rights;
mod single;
mod why;

use holdfast_core::{
    model::Identity,
    operate::{Queue, Why},
};

use crate::fixture::Shard;

/// The queue of a shard, as operators address it.
fn queue(shard: &Shard) -> Queue {
    Queue { name: shard.keys.queue.clone(), shards: shard.policy.shards }
}

/// A request of the fixture's tenant.
fn identity(id: &str) -> Identity {
    Identity { tenant: "t".try_into().unwrap(), id: id.try_into().unwrap() }
}

/// Why a request is where it is.
async fn why(shard: &Shard, id: &str) -> Why {
    holdfast_core::operate::why(&shard.redis, &queue(shard), &identity(id)).await.unwrap()
}

/// A sentence with T for each span and DATE for each date.
fn shape(sentence: &str) -> String {
    let words = sentence.split(' ').map(|word| {
        let bare = word.trim_end_matches(['.', ',', ':', ';', ')']);
        let (rest, is_digits) =
            (&word[bare.len()..], bare.starts_with(|it: char| it.is_ascii_digit()));
        let is_span = is_digits
            && bare.ends_with(['s', 'm', 'h'])
            && bare.bytes().all(|byte| byte.is_ascii_digit() || b".smhd".contains(&byte));
        match () {
            () if is_digits && bare.ends_with('Z') => format!("DATE{rest}"),
            () if is_span => format!("T{rest}"),
            () => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_shape_keeps_all_but_times() {
    assert_eq!(
        shape("It was due 4.2s ago, until 2026-01-01T00:00:00Z: 3 of 4 in 2h03m."),
        "It was due T ago, until DATE: 3 of 4 in T."
    );
}
