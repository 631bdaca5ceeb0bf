//! Strings in Redis that somebody rewrote: short, long, cut, or of any bytes.
//!
//! Whoever may write there can lose what is kept, and nothing else: no role panics, no prompt is told, each request that can
//! still be told ends once, and all others are served.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use holdfast_core::model::{Identity, Key};
use holdfast_testkit::http::Answer;
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Value, eventually};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::cli::ctl;
use crate::fleet::{Fleet, SOON};

/// Stands in every prompt, and in some of what is written by hand.
const MARK: &str = "PROMPT-MARK";

/// How many requests wait; each third is left as it is.
const REQUESTS: usize = 150;

/// Where a ticket has its deadline: docs/protocol.md, "Ticket", from 0.
const DEADLINE: usize = 50;

/// No look takes longer, of thousands on a machine that may be busy.
const AT_ONCE: Duration = Duration::from_secs(12);

const TICKET: &str = "hf1:{q/0}:ticket";
const REQUEST: &str = "hf1:{q/0}:request";

/// One of the ways to rewrite a string.
fn rewritten(bytes: &[u8], dice: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = dice.random_range(0..=bytes.len());
    let mut any = |most: usize| -> Vec<u8> {
        let length = dice.random_range(0..=most);
        (0..length).map(|_| dice.random()).collect()
    };
    match any(1).len() + 2 * any(5).len() {
        0 => bytes.clear(),
        1 => bytes.truncate(at),
        2 => bytes = any(600),
        3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = !*byte),
        4 => bytes.extend(any(60)),
        5 => bytes.fill(0xff),
        6 => bytes.fill(0),
        7 => bytes.iter_mut().skip(1).zip(any(600)).for_each(|(byte, new)| *byte = new),
        8 => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = 0xff),
        9 => bytes = MARK.as_bytes().repeat(20_000),
        10 => bytes.iter_mut().take(1).for_each(|version| *version += 1),
        _ => bytes = format!("{{\"prompt\":\"{MARK}\"}}").into_bytes(),
    }
    bytes
}

fn key_of(id: &str) -> Key {
    let identity = Identity {
        tenant: "default".try_into().expect("a name"),
        id: id.try_into().expect("an id"),
    };
    identity.place(NonZeroU32::MIN).key
}

async fn field(fleet: &Fleet, hash: &str, key: &[u8]) -> Vec<u8> {
    let answer = fleet.redis.command(&[b"HGET", hash.as_bytes(), key]).await;
    answer.bytes().unwrap_or_else(|| panic!("{hash}: {answer:?}")).to_vec()
}

async fn write(fleet: &Fleet, hash: &str, key: &[u8], bytes: &[u8]) {
    let answer = fleet.redis.command(&[b"HSET", hash.as_bytes(), key, bytes]).await;
    assert!(matches!(answer, Value::Int(_)), "{hash}: {answer:?}");
}

/// What is told of something that somebody may have rewritten: in time, in a form of ours, and without a prompt, unless that
/// is the gateway's own answer.
async fn look(fleet: &Fleet, method: &str, path: &str, body: &str) -> Answer {
    let asked = Instant::now();
    let answer = fleet.call(method, path, body.as_bytes()).await;
    let (told, took) = (answer.text().to_owned(), asked.elapsed());
    assert!(took < AT_ONCE, "{method} {path} took {took:?}");
    assert!(
        matches!(answer.status, 200 | 202 | 404 | 429 | 500),
        "{path}: {} {told}",
        answer.status
    );
    let given = answer.header("holdfast-outcome").is_some();
    assert!(given || !told.contains(MARK), "{method} {path} told a prompt: {told}");
    answer
}

/// What operators are told, whose tool never falls over.
async fn operators_look(fleet: &Fleet, ids: &[&str]) {
    let mut calls: Vec<Vec<&str>> = vec![
        vec!["doctor"],
        vec!["queue", "ls"],
        vec!["worker", "ls"],
        vec!["lease", "ls", "--queue", "q"],
        vec!["dead", "ls", "--queue", "q"],
    ];
    calls.extend(ids.iter().map(|id| vec!["why", id, "--queue", "q"]));
    for mut call in calls {
        call.extend(["--redis", fleet.redis.url()]);
        let ran = ctl(&call).await;
        let told = format!("{}{}", String::from_utf8_lossy(&ran.stdout), ran.stderr);
        assert!(ran.code.is_some_and(|code| code < 100), "{call:?} {:?}: {told}", ran.code);
        assert!(!told.contains("panicked") && !told.contains(MARK), "{call:?}: {told}");
    }
}

/// Requests that wait, two of three rewritten; gives back which are whole.
async fn rewrite_waiting(fleet: &Fleet, dice: &mut StdRng) -> Vec<(String, bool)> {
    let soon = std::time::Duration::from_secs(2);
    let mut requests = Vec::new();
    for number in 0..REQUESTS {
        let id = format!("waits-{number}");
        let later = match number % 4 {
            3 => format!("\"not_before\":{},", unix() + soon.as_secs()),
            _ => String::new(),
        };
        let item = format!(
            "{{\"id\":\"{id}\",{later}\"timeout\":\"10m\",\"payload\":{{\"content\":\"{MARK} {id}\"}}}}"
        );
        assert_eq!(fleet.post(&item).await.status, 202);
        requests.push((id, number % 3 == 0));
    }
    for (id, _) in requests.iter().filter(|(_, whole)| !whole) {
        let key = key_of(id);
        for _ in 0..dice.random_range(1..=2) {
            let hash = if dice.random() { TICKET } else { REQUEST };
            let bytes = rewritten(&field(fleet, hash, key.as_bytes()).await, dice);
            write(fleet, hash, key.as_bytes(), &bytes).await;
        }
    }
    requests
}

fn unix() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a caller's own time")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock after 1970").as_secs()
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_and_requests_that_somebody_rewrote_end_once_and_hold_up_nobody() {
    let fleet = Fleet::start().await;
    let mut dice = StdRng::seed_from_u64(7);
    let requests = rewrite_waiting(&fleet, &mut dice).await;
    // Tried again, it would wait in the order of a deadline that is more than any integer of a reply.
    let once = Rule::on_body("endless").times(1).status(503);
    fleet.gateway.script(vec![once]).expect("a rule");
    fleet.submit("endless", "{\"content\":\"endless\"}").await;
    let mut ticket = field(&fleet, TICKET, key_of("endless").as_bytes()).await;
    ticket[DEADLINE..DEADLINE + 8].fill(0xff);
    write(&fleet, TICKET, key_of("endless").as_bytes(), &ticket).await;
    let spoiled: Vec<&str> = requests.iter().filter(|it| !it.1).map(|it| it.0.as_str()).collect();
    operators_look(&fleet, &spoiled[..8]).await;

    let (mut worker, mut reclaimer) = (fleet.worker(), fleet.reclaimer());
    for (id, _) in &requests {
        for rest in ["", "/result"] {
            look(&fleet, "GET", &format!("/v1/queues/q/requests/{id}{rest}"), "").await;
        }
    }
    for (id, _) in requests.iter().filter(|(_, whole)| *whole) {
        assert_eq!(fleet.result(id).await.0, "answered", "{id} was left as it is");
    }
    assert_eq!(fleet.result("endless").await.0, "answered");
    for home in ["pending", "suspects", "delayed", "leased"] {
        fleet.wait_for_count(home, 0, SOON).await;
    }

    let mut ends = BTreeMap::<String, usize>::new();
    for id in &spoiled {
        let path = format!("/v1/queues/q/requests/{id}/result");
        let (first, again) =
            (look(&fleet, "GET", &path, "").await, look(&fleet, "GET", &path, "").await);
        assert_eq!((first.status, &first.body), (again.status, &again.body), "{id}");
        let outcome = first.header("holdfast-outcome").map(str::to_owned);
        *ends.entry(outcome.unwrap_or_else(|| first.status.to_string())).or_default() += 1;
    }
    println!("{} of {REQUESTS} rewritten: {ends:?}", spoiled.len());
    assert!(ends["unusable"] > 0 && ends["answered"] > 0, "{ends:?}");
    operators_look(&fleet, &spoiled[..8]).await;
    fleet.submit("after", "{}").await;
    assert_eq!(fleet.result("after").await.0, "answered");

    for role in [&mut worker, &mut reclaimer] {
        assert!(role.process.terminate().await.success(), "{}", role.process.output());
    }
    let said = [worker.process.output(), reclaimer.process.output(), fleet.producers_output()];
    for said in said {
        assert!(!said.contains(MARK) && !said.contains("panicked"), "{said}");
    }
}

/// A field of a hash, by hand.
async fn fields(fleet: &Fleet, hash: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = fleet.redis.command(&["HGETALL", hash]).await;
    let all: Vec<Vec<u8>> =
        all.array().expect("fields").iter().filter_map(|it| it.bytes().map(Vec::from)).collect();
    all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_else_somebody_rewrote_is_told_as_a_fault_and_goes_on_once_it_is_put_back() {
    let fleet = Fleet::start().await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    let mut dice = StdRng::seed_from_u64(11);
    for id in ["kept", "kept-too"] {
        fleet.submit(id, &format!("{{\"content\":\"{MARK}\"}}")).await;
        assert_eq!(fleet.result(id).await.0, "answered");
    }
    let (mut writes, mut told) = (0, BTreeMap::<u16, usize>::new());
    let odd: [&[u8]; 6] =
        [b"", b"-1", b"1e400", b"99999999999999999999999", b"nan", MARK.as_bytes()];
    for hash in ["result", "ticket", "meta", "lanes", "sessions"]
        .map(|name| format!("hf1:{{q/0}}:{name}"))
        .into_iter()
        .chain(["hf1:queues", "hf1:workers"].map(str::to_owned))
    {
        for (number, (name, value)) in fields(&fleet, &hash).await.into_iter().enumerate() {
            let own = (0..3).map(|_| rewritten(&value, &mut dice)).collect::<Vec<_>>();
            let more = (0..3).map(|_| odd[dice.random_range(0..odd.len())].to_vec());
            for bytes in own.into_iter().chain(more.collect::<Vec<_>>()) {
                write(&fleet, &hash, &name, &bytes).await;
                writes += 1;
                let item =
                    format!("{{\"id\":\"new-{writes}\",\"timeout\":\"10m\",\"payload\":{{}}}}");
                for (method, path, body) in [
                    ("GET", "/v1/queues/q/requests/kept", ""),
                    ("GET", "/v1/queues/q/requests/kept/result", ""),
                    ("GET", "/v1/queues/q/requests?state=finished", ""),
                    ("GET", "/v1/queues", ""),
                    ("POST", "/v1/queues/q/requests", &item),
                    ("DELETE", "/v1/queues/q/requests/kept", ""),
                ] {
                    let answer = look(&fleet, method, path, body).await;
                    *told.entry(answer.status).or_default() += 1;
                }
            }
            if number == 0 {
                operators_look(&fleet, &["kept"]).await;
            }
            write(&fleet, &hash, &name, &value).await;
        }
    }
    println!("{writes} strings rewritten: {told:?}");
    assert!(writes > 100, "{writes}");
    eventually("all that was taken ends", SOON, async || {
        let left = fleet.count("pending").await + fleet.count("leased").await;
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    for said in [worker.process.output(), reclaimer.process.output(), fleet.producers_output()] {
        assert!(!said.contains(MARK) && !said.contains("panicked"), "{said}");
    }
}
