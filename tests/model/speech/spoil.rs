//! One wrong argument a call: each is refused before anything is written, also where only the last row is wrong.

use At::{Head, Tail};
use How::{Be, Both, Gone, Half, Longer, Many};

/// What becomes of the argument.
enum How {
    Be(&'static str),
    Half,
    Longer,
    Gone,
    /// It, and the one before it.
    Both,
    /// Its row comes 256 times more.
    Many,
}

/// Counted from the front, or from the back.
enum At {
    Head(usize),
    Tail(usize),
}

const SUBMIT: &[(At, How)] = &[
    (Head(0), Be("x")),
    (Head(0), Be("-1")),
    (Head(1), Be("a limit")),
    (Tail(2), Half),
    (Tail(1), Half),
    (Tail(0), Gone),
    (Tail(0), Many),
];
const CLAIM: &[(At, How)] = &[
    (Head(0), Half),
    (Head(0), Longer),
    (Head(0), Be("ab000000000000000000000000000xyz")),
    (Head(1), Be("257")),
    (Head(1), Be("-1")),
    (Head(1), Be("x")),
    (Head(2), Be("0")),
    (Head(2), Be("x")),
    (Head(3), Be("x")),
    (Head(5), Be("x")),
    (Head(6), Be("x")),
];
const RENEW: &[(At, How)] = &[
    (Head(0), Be("0")),
    (Head(0), Be("x")),
    (Tail(1), Be("")),
    (Tail(0), Half),
    (Tail(0), Gone),
    (Tail(0), Many),
];
const SETTLE: &[(At, How)] = &[
    (Tail(2), Be("")),
    (Tail(2), Half),
    (Tail(1), Be("n12345678")),
    (Tail(1), Be("")),
    (Tail(1), Be("r12345678ab")),
    (Tail(0), Gone),
    (Tail(0), Many),
];
const CANCEL: &[(At, How)] = &[(Tail(0), Half), (Tail(0), Be("")), (Tail(0), Many)];
const REDRIVE: &[(At, How)] = &[
    (Tail(2), Half),
    (Tail(1), Half),
    (Tail(0), Be("x")),
    (Tail(0), Gone),
    (Tail(0), Both),
    (Tail(0), Many),
];
const RECLAIM: &[(At, How)] = &[(Head(0), Be("0")), (Head(0), Be("257")), (Head(0), Be("x"))];
const PROMOTE: &[(At, How)] = &[(Head(0), Be("0")), (Head(0), Be("257")), (Head(0), Be("x"))];
const EXPIRE: &[(At, How)] = &[(Head(0), Be("0")), (Head(0), Be("129")), (Head(0), Be("x"))];
const SWEEP: &[(At, How)] = &[
    (Head(0), Be("0")),
    (Head(0), Be("257")),
    (Head(0), Be("x")),
    (Head(1), Be("0")),
    (Head(1), Be("x")),
];
const READ: &[(At, How)] = &[
    (Head(0), Be("x")),
    (Head(2), Be("x")),
    (Head(2), Be("0")),
    (Tail(0), Half),
    (Tail(0), Be("")),
    (Tail(0), Many),
];
const AUDIT: &[(At, How)] = &[(Tail(0), Half), (Tail(0), Be("")), (Tail(0), Many)];
const POLICY: &[(At, How)] = &[(Head(0), Be("x")), (Tail(0), Gone)];
const OVERRULE: &[(At, How)] = &[
    (Head(0), Be("capacity")),
    (Head(1), Be("wish")),
    (Head(2), Be("x")),
    (Head(3), Be("x")),
    (Head(4), Be("x")),
];
const REGISTER: &[(At, How)] = &[(Head(0), Be("role")), (Head(1), Be("")), (Head(3), Be("x"))];

/// The ways in which a call of this script can be wrong. A call with rows has at least one.
fn ways(script: &str) -> &'static [(At, How)] {
    match script {
        "submit" => SUBMIT,
        "claim" => CLAIM,
        "renew" => RENEW,
        "settle" => SETTLE,
        "cancel" => CANCEL,
        "redrive" => REDRIVE,
        "reclaim" => RECLAIM,
        "promote" => PROMOTE,
        "expire" => EXPIRE,
        "sweep" => SWEEP,
        "read" => READ,
        "audit" => AUDIT,
        "policy" => POLICY,
        "overrule" => OVERRULE,
        "register" => REGISTER,
        _ => &[],
    }
}

/// The ways for calls whose rows name something.
fn ways_of_rows(script: &str) -> &'static [(At, How)] {
    match script {
        "reclaim" => &[(Tail(0), Half), (Tail(1), Be("")), (Tail(0), Gone), (Tail(0), Many)],
        "promote" => &[(Tail(0), Be("x")), (Tail(1), Half), (Tail(0), Gone), (Tail(0), Many)],
        // What one word must bring and another need not.
        "settle/a" => &[(Tail(0), Be("abc")), (Tail(1), Be("a\0\0\0\0\0\x01\0\0"))],
        "settle/t" => &[(Tail(1), Be("t\0\0\0\0\0\0\0\x01"))],
        "settle/b" => {
            &[(Tail(1), Be("b\0\0\0\0\0\0\0\x03abc")), (Tail(1), Be("b\0\0\0\0\0\0\0\x08abc"))]
        }
        _ => &[],
    }
}

/// How many arguments make a row.
fn width(script: &str) -> usize {
    match script {
        "settle" | "submit" | "redrive" => 3,
        "renew" | "reclaim" | "promote" => 2,
        _ => 1,
    }
}

/// The arguments with one of them spoiled; unchanged where there is nothing to spoil.
pub(super) fn spoiled(script: &str, mut args: Vec<Vec<u8>>, way: usize) -> Vec<Vec<u8>> {
    let extra = match script {
        "settle" => {
            args.len().checked_sub(2).map(|at| String::from_utf8_lossy(&args[at][..1]).into_owned())
        }
        "reclaim" | "promote" => (args.len() > 1).then(String::new),
        _ => None,
    };
    let extra = extra.map_or(&[][..], |word| match word.as_str() {
        "" => ways_of_rows(script),
        word => ways_of_rows(&format!("{script}/{word}")),
    });
    let all: Vec<_> = ways(script).iter().chain(extra).collect();
    let (at, how) = all[way % all.len()];
    let at = match at {
        At::Head(at) => *at,
        At::Tail(back) => args.len() - 1 - back,
    };
    match how {
        Be(text) => args[at] = (*text).into(),
        Half => {
            let half = args[at].len() / 2;
            args[at].truncate(half);
        }
        Longer => args[at].push(b'0'),
        Gone => drop(args.remove(at)),
        Both => args.truncate(args.len() - 2),
        Many => {
            let row = args[args.len() - width(script)..].to_vec();
            (0..256).for_each(|_| args.extend_from_slice(&row));
        }
    }
    args
}
