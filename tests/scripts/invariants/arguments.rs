//! 6: all or nothing. 10: a call of more items than a script handles is none.

use holdfast_core::{
    model::{Fence, Handle, Session},
    script::{self, Listing, SettleItem},
};
use holdfast_testkit::Value;

use crate::fixture::{
    FAR, Item, Shard, ack, assert_same, bury, fence, header_keys, retry, run_raw,
};

/// How a settle tells that an attempt is handed back and something was sent.
const RELEASE: &[u8] = b"r\0\0\0\0\0\0\0\x01";

/// Arguments that a script must refuse, each list for one reason.
fn nonsense(script: &Listing) -> Vec<Vec<&'static [u8]>> {
    const K: &[u8] = &[1; 16];
    const H: &[u8] = &[1; 32];
    const M: &[u8] = &[1; 65];
    match script.name {
        "submit" => vec![
            vec![b"x", b""],
            vec![b"5", b"", K],
            vec![b"5", b"", K, b"no ticket", b""],
            vec![b"5", K],
        ],
        "claim" => {
            let fence: &[u8] = b"00000000000000010000000000000001";
            let rest = |free, lease| vec![fence, free, lease, b"5", b"1", b"1"];
            vec![
                vec![b"short", b"1", b"5", b"5", b"1", b"1"],
                rest(b"257", b"5"),
                rest(b"-1", b"5"),
                rest(b"1", b"0"),
            ]
        }
        "renew" => vec![vec![b"0", H, H], vec![b"5", H], vec![b"5", H, b"short"]],
        "settle" => vec![
            vec![M, b"a\0\0\0\0\0\0\0\xc8"],
            vec![M, b"f\0\0\0\0\0\0\0\x01", b""],
            vec![M, b"a\0\0\0\0\0\0\0\xc8", b""],
            vec![M, b"r\0\0\0\0\0\0\0\x01ab", b""],
            vec![M, b"t\0\0\0\0\0\0\0\x01", b""],
            vec![M, b"b\0\0\0\0\0\0\0\x01abc", b""],
            vec![H, b"r\0\0\0\0\0\0\0\x01", b""],
        ],
        "cancel" => vec![vec![b"short"], vec![H, b"short"]],
        "redrive" => vec![vec![H, b"short", b"0"], vec![H, &[1; 8]]],
        "reclaim" => vec![vec![b"0"], vec![b"257"], vec![b"1", H], vec![b"1", H, b"short"]],
        "promote" => vec![vec![b"0"], vec![b"257"], vec![b"1", H], vec![b"1", H, b"soon"]],
        "expire" => vec![vec![b"0"], vec![b"129"]],
        "sweep" => vec![vec![b"0", b"5"], vec![b"129", b"5"], vec![b"1", b"0"]],
        "read" => vec![
            vec![b"1", b"1", b"9", b"short"],
            vec![b"all", b"1", b"9"],
            vec![b"1", b"1", b"all"],
            vec![b"1", b"1", b"0"],
        ],
        "audit" => vec![vec![b"short"]],
        "policy" => vec![vec![b"x", b"1"], vec![b"1", b"1", b"field"]],
        "overrule" => vec![
            vec![b"speed", b"take", b"1", b"", b""],
            vec![b"paused", b"shout", b"1", b"", b""],
            vec![b"limit", b"take", b"1", b"many", b""],
        ],
        "register" => vec![vec![b"robot", b"name", b"", b"5"], vec![b"queue", b"", b"", b"5"]],
        // These take no arguments.
        "ring" | "depth" => vec![],
        new => panic!("{new}: say here what it refuses"),
    }
}

/// Whether a script refused its arguments.
fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with("BADARG"))
}

#[tokio::test]
async fn each_script_refuses_bad_arguments_before_its_first_write() {
    let shard = Shard::start().await;
    shard.running(&Item::new("running")).await;
    shard.accept(&Item::new("waiting")).await;
    let before = shard.dump().await;
    for script in script::all() {
        for args in nonsense(&script) {
            let answer = run_raw(&shard, &script, &args).await;
            assert!(is_refused(&answer), "{} {args:?}: {answer:?}", script.name);
            assert_same(script.name, &before, &shard.dump().await);
        }
    }
}

#[tokio::test]
async fn a_call_without_rows_is_answered_with_none() {
    let shard = Shard::start().await;
    shard.running(&Item::new("running")).await;
    let before = shard.dump().await.without_beat(&shard);
    for script in script::all() {
        let head: &[&[u8]] = match script.name {
            "submit" => &[b"5", b""],
            "renew" => &[b"5"],
            "settle" | "cancel" | "redrive" | "audit" => &[],
            "read" => &[b"1", b"0", b"9"],
            _ => continue,
        };
        assert_eq!(script.head, head.len(), "{}", script.name);
        let answer = run_raw(&shard, &script, head).await;
        assert_eq!(answer.array().map(<[Value]>::len), Some(0), "{}: {answer:?}", script.name);
        assert_same(script.name, &before, &shard.dump().await.without_beat(&shard));
    }
}

#[tokio::test]
async fn a_group_with_one_bad_row_behind_good_ones_writes_nothing() {
    let shard = Shard::start().await;
    let (owner, a) = shard.running(&Item::new("a")).await;
    let waiting = shard.accept(&Item::new("waiting")).await;
    let good = |script: &str| -> Vec<Vec<u8>> {
        let (fence, held) = (owner.as_bytes().to_vec(), a.as_bytes().to_vec());
        match script {
            "renew" => vec![b"60000".into(), fence, held],
            "settle" => vec![[fence, b"|".to_vec(), held].concat(), RELEASE.to_vec(), vec![]],
            "cancel" => vec![waiting.as_bytes().to_vec()],
            "reclaim" => vec![b"1".into(), fence, held],
            other => panic!("{other} is not asked here"),
        }
    };
    let before = shard.dump().await;
    for script in script::all() {
        if !matches!(script.name, "renew" | "settle" | "cancel" | "reclaim") {
            continue;
        }
        let mut args = good(script.name);
        args.extend(vec![b"bad".to_vec(); script.row]);
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let answer = run_raw(&shard, &script, &args).await;
        assert!(is_refused(&answer), "{}: {answer:?}", script.name);
        assert_same(script.name, &before, &shard.dump().await);
    }
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_call_of_more_than_256_items_is_refused_whole() {
    let shard = Shard::start().await;
    let before = shard.dump().await;
    for script in script::all().iter().filter(|script| script.row > 0 && script.name != "policy") {
        for (rows, refused) in [(256, false), (257, true), (5000, true)] {
            let args = rows_of(script, rows);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let answer = run_raw(&shard, script, &args).await;
            assert_eq!(is_refused(&answer), refused, "{} of {rows}", script.name);
        }
    }
    let after = shard.dump().await.without_beat(&shard);
    // Of each 256 that were taken, submit alone has something to write.
    let keys = &shard.keys;
    let untouched = |dump: crate::fixture::Dump| {
        dump.without(&keys.pending)
            .without(&keys.ticket)
            .without(&keys.request)
            .without(&keys.lanes)
            .without(&keys.bell)
            .without_fields(&keys.meta, &["seq", "bytes", "beat"])
    };
    assert_same("the rest", &untouched(before), &untouched(after.clone()));
    assert_eq!(after.of(&keys.pending).len(), 256);
}

/// Arguments, as Redis takes them.
type Words = Vec<Vec<u8>>;

/// Arguments of a call with this many rows, all well-formed; none names anything that is there.
fn rows_of(script: &Listing, rows: usize) -> Vec<Vec<u8>> {
    let name = |at: usize| format!("{at:032}").into_bytes();
    let short = |at: usize| format!("{at:016}").into_bytes();
    let (head, row): (Words, Box<dyn Fn(usize) -> Words>) = match script.name {
        "submit" => (vec![b"5".into(), vec![]], Box::new(|at| draft(short(at)))),
        "renew" => (vec![b"5".into()], Box::new(|at| vec![name(at), name(at)])),
        "settle" => {
            let member = move |at| [name(at), b"|".to_vec(), name(at)].concat();
            (vec![], Box::new(move |at| vec![member(at), RELEASE.to_vec(), vec![]]))
        }
        "cancel" => (vec![], Box::new(|at| vec![name(at)])),
        "redrive" => (vec![], Box::new(|at| vec![name(at), vec![1; 8], b"0".into()])),
        "reclaim" => (vec![b"1".into()], Box::new(|at| vec![name(at), name(at)])),
        "promote" => (vec![b"1".into()], Box::new(|at| vec![name(at), b"5".into()])),
        "read" => (vec![b"0".into(), b"0".into(), b"9".into()], Box::new(|at| vec![short(at)])),
        "audit" => (vec![], Box::new(|at| vec![short(at)])),
        new => panic!("{new}: say here what a row of it is"),
    };
    assert_eq!((head.len(), row(0).len()), (script.head, script.row), "{}", script.name);
    head.into_iter().chain((0..rows).flat_map(row)).collect()
}

/// A row of a submit: key, ticket and request.
fn draft(key: Vec<u8>) -> Vec<Vec<u8>> {
    let mut ticket = vec![0; 189];
    ticket[0] = 1;
    ticket[50..58].copy_from_slice(&FAR.to_be_bytes());
    ticket[188] = 7;
    ticket.extend(*b"\0\x01t\0\0\0\0");
    vec![key, ticket, b"request".into()]
}

#[tokio::test]
async fn a_header_names_the_keys_that_the_typed_call_sends() {
    let shard = Shard::start().await;
    let settle = script::all().into_iter().find(|script| script.name == "settle").unwrap();
    assert_eq!(header_keys(&shard.keys, &settle)[0], shard.keys.pending);
    let (owner, a) = shard.running(&Item::new("a")).await;
    let row = |fence: Fence, handle: Handle, kind| SettleItem { fence, handle, kind };
    // Word for word the same through both ways in.
    let strange = fence(Session::random(), 1);
    let items = [row(owner, a, retry(5)), row(strange, a, ack("")), row(strange, a, bury())];
    let before = shard.remember().await;
    let typed = shard.settle_all(&items).await.unwrap();
    shard.forget_since(&before).await;
    let member = [&owner.as_bytes()[..], b"|", a.as_bytes()].concat();
    let args: Vec<&[u8]> = vec![&member, b"t\0\0\0\0\0\0\0\x05\x0a\0\0", b""];
    let Value::Array(raw) = run_raw(&shard, &settle, &args).await else { panic!("no answers") };
    assert_eq!(raw[0], Value::from("ok"));
    assert_eq!(typed[0], holdfast_core::script::SettleReply::Done);
    shard.assert_whole().await;
}
