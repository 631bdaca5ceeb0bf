//! K99: clocks that differ between machines.
//!
//! Where a lease or a deadline is judged by the clock of whoever looks, it ends early or never: work is done twice, or waits for ever.

use std::env;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_testkit::{RedisServer, eventually};
use serde_json::Value;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::k18_retry_after::date_in;
use crate::pace::{beside_others, count, time};
use crate::raw_gateway::{Answer, Asked, RawGateway};
use crate::{aftermath, stage};

/// How far the clocks of the machines are off.
const OFF: [&str; 2] = ["+10m", "-10m"];

/// Lets a process have another clock: Debian's libfaketime.
struct Skew {
    library: String,
}

impl Skew {
    /// None where it is not installed, or does nothing; in CI that is a failure.
    fn found() -> Option<Self> {
        let places = ["x86_64-linux-gnu", "aarch64-linux-gnu"]
            .map(|machine| format!("/usr/lib/{machine}/faketime/libfaketimeMT.so.1"));
        let mut found = places.into_iter().map(|library| Self { library });
        let working = found.rfind(Self::works);
        if working.is_none() {
            skip("clocks can't be skewed: apt-get install faketime");
        }
        working
    }

    fn works(&self) -> bool {
        let mut date = Command::new("date");
        date.arg("+%s").envs(self.environment("+10m"));
        let told = date.output().ok().and_then(|done| String::from_utf8(done.stdout).ok());
        let there: Option<u64> = told.and_then(|text| text.trim().parse().ok());
        there.is_some_and(|there| there.abs_diff(stage::unix() + 600) < 60)
    }

    /// The clock on the wall alone: that which counts from the start of a machine is right on every machine.
    fn environment<'a>(&'a self, off: &'a str) -> [(&'a str, &'a str); 3] {
        [("LD_PRELOAD", &self.library), ("FAKETIME", off), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]
    }

    /// A role on a machine whose clock is off.
    fn role(&self, fleet: &Fleet, name: &str, off: &str) -> Role {
        let program = match name {
            "producer" => env!("CARGO_BIN_EXE_it-producer"),
            "worker" => env!("CARGO_BIN_EXE_it-worker"),
            _ => env!("CARGO_BIN_EXE_it-reclaimer"),
        };
        fleet.role(name, program, &self.environment(off))
    }
}

/// Says that nothing was tested, past the capture that hides what a passing test prints.
fn skip(why: &str) {
    assert!(
        env::var_os("CI").is_none_or(|ci| ci.is_empty()),
        "in CI there is no way around it: {why}"
    );
    let told = format!("\nSKIPPED, NOT TESTED: {why}\n");
    std::io::stderr().write_all(told.as_bytes()).expect("standard error");
}

/// A worker and a reclaimer on either side of the right time.
fn machines(skew: &Skew, fleet: &Fleet) -> Vec<Role> {
    let both = ["worker", "reclaimer"];
    OFF.iter().flat_map(|off| both.map(|name| skew.role(fleet, name, off))).collect()
}

fn setup() -> Setup {
    // The lease stays above its least in a short run, with room for three renewals.
    let lease = time(6.0).max(Duration::from_secs(4));
    Setup {
        worker: stage::worker(8, lease),
        reclaimer: stage::reclaimer(Duration::from_millis(250)),
        ..Setup::default()
    }
}

/// Calls of more than one lease, renewed by workers whose clocks are off, under reclaimers whose clocks are off.
#[tokio::test(flavor = "multi_thread")]
async fn no_lease_lapses_because_clocks_differ() {
    let _shared = beside_others().await;
    let Some(skew) = Skew::found() else { return };
    let redis = RedisServer::start().await;
    let mut fleet = Fleet::without_producer(setup(), redis).await;
    let slow = time(9.0).max(Duration::from_secs(5));
    let gateway =
        RawGateway::instead_of(&mut fleet.gateway, move |_: &Asked<'_>| Answer::ok().after(slow))
            .await;
    let api = skew.role(&fleet, "producer", OFF[0]);
    fleet.ready(api.ops).await;
    let roles = machines(&skew, &fleet);
    for role in &roles {
        fleet.ready(role.ops).await;
    }
    let ids = stage::ids("k99", count(64, 24));
    stage::submit_all(&fleet, &ids).await;
    let all: Vec<&Role> = roles.iter().chain([&api]).collect();
    let outcomes = aftermath::of(&fleet, &ids, &all).await;
    assert_eq!(outcomes, vec!["answered"; ids.len()]);
    assert_eq!(gateway.arrivals().len(), ids.len(), "something ran twice");
    for role in &roles {
        for metric in
            ["holdfast_lapses_total", "holdfast_forgiven_total", "holdfast_redeliveries_total"]
        {
            assert_eq!(fleet.metric(role, metric, "").await, 0.0, "{metric}");
        }
    }
    is_told(&fleet, &all).await;
}

/// The difference to the clock of Redis is exported and warned about.
async fn is_told(fleet: &Fleet, roles: &[&Role]) {
    for role in roles {
        let skew = fleet.metric(role, "holdfast_clock_skew_seconds", "").await;
        assert!((skew.abs() - 600.0).abs() < 5.0, "it says that it is {skew} s off");
        let warned = "the clocks of redis and of this machine differ";
        assert!(role.process.output().contains(warned), "{}", role.process.output());
    }
}

/// A deadline is the same moment for a caller, a producer, a worker and a reclaimer that disagree about the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_comes_when_it_comes_by_the_clock_of_redis() {
    let _shared = beside_others().await;
    let Some(skew) = Skew::found() else { return };
    for off in OFF {
        let redis = RedisServer::start().await;
        let fleet = Fleet::without_producer(setup(), redis).await;
        fleet.gateway.hold(true);
        let api = skew.role(&fleet, "producer", off);
        fleet.ready(api.ops).await;
        let asked = Instant::now();
        // The very first call to this process: it has not compared its clock before.
        let submitted = stage::unix();
        for (id, when) in [
            ("by-span", r#""timeout":"4s""#.to_owned()),
            ("by-moment", format!(r#""deadline":{}"#, submitted + 4)),
        ] {
            let answer = fleet.post(&format!(r#"{{"id":"{id}",{when},"payload":{{}}}}"#)).await;
            assert_eq!(answer.status, 202, "{off} {id}: {}", answer.text());
            let deadline = deadline_of(&fleet.status(id).await);
            assert!(
                (submitted + 3..=submitted + 15).contains(&deadline),
                "{off} {id}: {deadline} at {submitted}"
            );
        }
        let roles = machines(&skew, &fleet);
        for id in ["by-span", "by-moment"] {
            assert_eq!(fleet.result(id).await.0, "deadline-exceeded", "{off} {id}");
        }
        let took = asked.elapsed();
        assert!(
            took > Duration::from_secs(3) && took < Duration::from_secs(4) + SOON / 3,
            "{off}: {took:?}"
        );
        drop(roles);
    }
}

/// A gateway's date means the same to workers that disagree about the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_date_of_retry_after_is_no_matter_of_the_workers_clock() {
    let _shared = beside_others().await;
    let Some(skew) = Skew::found() else { return };
    for off in OFF {
        let redis = RedisServer::start().await;
        let mut fleet = Fleet::without_producer(setup(), redis).await;
        let plan = |asked: &Asked<'_>| {
            if asked.earlier > 0 {
                return Answer::ok();
            }
            let date = format!("Retry-After: {}", date_in(4));
            Answer::with(503, &[&date], "later")
        };
        let gateway = RawGateway::instead_of(&mut fleet.gateway, plan).await;
        let api = skew.role(&fleet, "producer", off);
        fleet.ready(api.ops).await;
        let worker = skew.role(&fleet, "worker", off);
        stage::submit_all(&fleet, &stage::ids("k99", 1)).await;
        assert_eq!(fleet.result("k99-1").await.0, "answered", "{off}");
        let [first, second] = <[_; 2]>::try_from(gateway.arrivals()).expect("two arrivals");
        let pause = second.at - first.at;
        // Dates have whole seconds.
        assert!(
            pause >= Duration::from_secs(3) && pause < Duration::from_secs(15),
            "{off}: {pause:?}"
        );
        drop(worker);
    }
}

/// A machine whose clocks run at a fifth: to it, the clock of Redis leaps ahead from one look to the next. Whoever would end
/// something by that clock says so, and rests; all else goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_of_redis_that_leaps_is_told_and_ends_nothing() {
    let _shared = beside_others().await;
    let Some(skew) = Skew::found() else { return };
    let reclaimer = "every = \"600ms\"".to_owned();
    let worker = "lease = \"2s\"\nrenew = \"500ms\"".to_owned();
    let more = "[queues.idle]\ntarget = \"http://127.0.0.1:1\"".to_owned();
    let setup = Setup { reclaimer, worker, more, ..Setup::default() };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let slow = [("LD_PRELOAD", skew.library.as_str()), ("FAKETIME", "+0 x0.2")];
    let reclaimer = fleet.role("reclaimer", env!("CARGO_BIN_EXE_it-reclaimer"), &slow);
    fleet.ready(reclaimer.ops).await;
    for name in ["expire", "sweep"] {
        eventually(&format!("the leap is told by {name}"), SOON, async || {
            let skips = fleet.metric(&reclaimer, "holdfast_clock_skips_total", name).await;
            if skips > 0.0 { Ok(()) } else { Err("not yet") }
        })
        .await;
    }
    let leapt = |line: &str| line.contains("the redis clock leapt ahead");
    reclaimer.process.wait_for_line(leapt, SOON).await;
    let waits = r#"{"id":"late","timeout":"1s","payload":{}}"#;
    let answer = fleet.call("POST", "/v1/queues/idle/requests", waits.as_bytes()).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    // What a killed worker held comes back all the same.
    fleet.gateway.hold(true);
    let mut worker = fleet.worker_with(&[("HOLDFAST_WORKER_QUEUES", "q")]);
    stage::submit_all(&fleet, &stage::ids("k99", 1)).await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    worker.process.kill();
    fleet.wait_for_count("pending", 1, SOON).await;
    fleet.gateway.hold(false);
    let _heir = fleet.worker_with(&[("HOLDFAST_WORKER_QUEUES", "q")]);
    assert_eq!(fleet.result("k99-1").await.0, "answered");
    // Its deadline has long passed, and a reclaimer with a right clock would have ended it.
    let late = fleet.call("GET", "/v1/queues/idle/requests/late", b"").await;
    let status: Value = serde_json::from_slice(&late.body).expect("a status");
    assert_eq!(status["state"], "pending", "{status}");
    let _right = fleet.reclaimer();
    eventually("it is ended", SOON, async || {
        let path = "/v1/queues/idle/requests/late";
        let late = fleet.call("GET", path, b"").await;
        if late.text().contains("deadline-exceeded") { Ok(()) } else { Err(late.text().to_owned()) }
    })
    .await;
}

/// The deadline that STATUS tells, in seconds.
fn deadline_of(status: &Value) -> u64 {
    status["deadline"].as_f64().expect("a deadline") as u64
}
