//! What the answer to a call tells who hears it.

use holdfast_model::{
    call::{Call, Claim, Settle},
    reply::{Part, Reply},
    state::{Fence, Handle, State},
};

use crate::mind::Checked;

/// What an answer tells who hears it.
pub(crate) enum Told {
    Nothing,
    Claim(Claim, Vec<(Handle, u64)>),
    /// The claim of this number has not run.
    NoClaim(u64),
    Renew(u64, Vec<((Fence, Handle), Option<u64>)>),
    Settle(Vec<Settle>),
    /// A group is refused as a whole.
    NoSettle(Vec<Settle>),
}

/// What the answer to a call tells.
pub(crate) fn told(call: &Call, reply: &Reply) -> Told {
    match call {
        Call::Claim(claim) => {
            let lease = |answer: &Vec<Part>| match answer.as_slice() {
                [Part::Word("lease"), Part::Handle(handle), _, _, Part::Number(till), ..] => {
                    Some((*handle, till.cast_unsigned()))
                }
                _ => None,
            };
            Told::Claim(claim.clone(), reply.answers.iter().filter_map(lease).collect())
        }
        Call::Renew { lease, leases } => {
            let till = |answer: &Vec<Part>| match answer.as_slice() {
                [Part::Word(_), Part::Number(till)] => Some(till.cast_unsigned()),
                _ => None,
            };
            let answers = leases.iter().copied().zip(reply.answers.iter().map(till));
            Told::Renew(*lease, answers.collect())
        }
        Call::Settle(rows) => Told::Settle(rows.clone()),
        _ => Told::Nothing,
    }
}

/// What is answered `fenced` was not touched.
pub(crate) fn changes_nothing_of_others(
    before: &State,
    after: &State,
    rows: &[Settle],
    reply: &Reply,
) -> Checked {
    for (row, answer) in rows.iter().zip(&reply.answers) {
        let fenced = matches!(answer.as_slice(), [Part::Word("fenced"), ..]);
        let settled_twice = rows.iter().filter(|it| it.handle.id == row.handle.id).count() > 1;
        let id = row.handle.id;
        let same = before.tickets.get(&id) == after.tickets.get(&id)
            && before.records.get(&id) == after.records.get(&id)
            && before.homes.get(&row.handle) == after.homes.get(&row.handle);
        if fenced && !settled_twice && !same {
            return Err(format!("was fenced, and changed something: {row:?}"));
        }
        if !before.holds(row.fence, row.handle) && !settled_twice && !same {
            return Err(format!("by nobody's right changed something: {row:?}"));
        }
    }
    Ok(())
}
