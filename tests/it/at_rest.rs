//! An idle system costs what it is said to cost; a lost hint costs a safety poll.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_testkit::{RedisServer, eventually};

use crate::fleet::{Fleet, SOON, Setup};

const WATCHED: Duration = Duration::from_secs(60);

/// The longest safety poll.
const POLL: f64 = 2.0;
/// The shortest.
const SHORTEST_POLL: f64 = 1.0;

async fn counts(fleet: &Fleet) -> BTreeMap<String, u64> {
    fleet.redis.command_counts().await
}

/// Waits until a second has gone by without a new connection, each of which pings: leases, bells and what is large have
/// their own, which may come after the first request has ended.
async fn all_connected(fleet: &Fleet) {
    let mut last = (0, Instant::now());
    eventually("every connection is made", SOON, async || {
        let pings = counts(fleet).await.get("ping").copied().unwrap_or(0);
        if pings != last.0 {
            last = (pings, Instant::now());
        }
        if last.1.elapsed() >= Duration::from_secs(1) { Ok(()) } else { Err(pings) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_system_sends_what_it_is_said_to_send_and_nothing_else() {
    let fleet = Fleet::with(Setup::patient(), RedisServer::start().await).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    for role in [&worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    // One request, so that every script is known to the server, and then silence.
    fleet.submit("first", "{\"content\":\"x\"}").await;
    fleet.result("first").await;
    all_connected(&fleet).await;

    let scripts = scripts_run(&fleet, &worker, &reclaimer).await;
    let (before, started) = (counts(&fleet).await, Instant::now());
    eventually("the watch is over", WATCHED * 2, async || {
        if started.elapsed() >= WATCHED { Ok(()) } else { Err("not yet") }
    })
    .await;
    let (after, seconds) = (counts(&fleet).await, started.elapsed().as_secs_f64());
    let ran = scripts_run(&fleet, &worker, &reclaimer).await;
    let ran = |name: &str| ran[name] - scripts[name];

    // One claim each safety poll; one look of the reclaimer a pass (250 ms), and after ten of them whether anything is over or
    // to be taken back; the minute's registration of three roles.
    let (most_polls, passes) = (seconds / SHORTEST_POLL + 2.0, seconds / 0.25 + 2.0);
    assert!(
        ran("claim") <= most_polls && ran("claim") >= seconds / POLL - 2.0,
        "{} claims",
        ran("claim")
    );
    for (name, most) in
        [("depth", passes), ("reclaim", passes / 10.0 + 2.0), ("sweep", passes / 10.0 + 2.0)]
    {
        assert!(ran(name) <= most && ran(name) >= most / 2.0 - 2.0, "{} {name}", ran(name));
    }
    for name in ["submit", "settle", "renew", "cancel", "read", "promote", "expire"] {
        assert_eq!(ran(name), 0.0, "{name} of an idle system");
    }
    assert!(ran("register") <= 8.0 && ran("policy") <= 6.0, "registration is the minute's");
    assert!(ran("may") <= 6.0, "rights are asked for once a minute");
    assert!(ran("rows") <= 4.0, "the registry is read once a minute: {}", ran("rows"));

    let grown =
        |name: &str| after.get(name).copied().unwrap_or(0) - before.get(name).copied().unwrap_or(0);
    let all = [
        "claim", "reclaim", "promote", "expire", "sweep", "depth", "register", "policy", "may",
        "rows",
    ];
    let said = all.iter().map(|name| ran(name)).sum::<f64>();
    assert!(
        grown("evalsha") as f64 <= said + 10.0,
        "{} scripts, {said} of them known",
        grown("evalsha")
    );
    // Producer and worker say every ten seconds what they listen to.
    let said = grown("ssubscribe") as f64;
    assert!(said <= 2.0 * (seconds / 10.0 + 1.0), "{said} subscriptions");
    // The waiter at the bell asks again at its own slow pace.
    assert!(grown("blpop") as f64 <= most_polls, "{} times at the bell", grown("blpop"));
    let unasked = [
        "get",
        "hget",
        "hmget",
        "hgetall",
        "ping",
        "eval",
        "script|load",
        "subscribe",
        "publish",
        "keys",
        "scan",
    ];
    // Commands inside scripts are counted as well: only what no script uses may be asked for here.
    for name in ["ping", "eval", "script|load", "subscribe", "publish", "keys", "scan"] {
        assert!(
            unasked.contains(&name) && grown(name) == 0,
            "{} {name} of an idle system",
            grown(name)
        );
    }
}

async fn scripts_run(
    fleet: &Fleet,
    worker: &crate::fleet::Role,
    reclaimer: &crate::fleet::Role,
) -> BTreeMap<&'static str, f64> {
    let mut ran = BTreeMap::new();
    let names = [
        "submit", "claim", "renew", "settle", "cancel", "read", "reclaim", "promote", "expire",
        "sweep", "depth", "register", "policy", "may", "rows",
    ];
    for name in names {
        let label = format!("script=\"{name}\"");
        let mut count = 0.0;
        for role in [worker, reclaimer] {
            count += fleet.metric(role, "holdfast_script_seconds_count", &label).await;
        }
        ran.insert(name, count);
    }
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_bell_costs_at_most_the_safety_poll() {
    let fleet = Fleet::start().await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    fleet.submit("first", "{\"content\":\"x\"}").await;
    fleet.result("first").await;
    let mut took = Vec::new();
    for number in 0..7 {
        // Somebody else hears the bell: it is deaf for the worker.
        fleet.redis.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        eventually("the worker is back", SOON, async || {
            match fleet.metric(&worker, "holdfast_redis_up", "").await {
                1.0 => Ok(()),
                _ => Err("redis is down for it"),
            }
        })
        .await;
        let id = format!("unheard-{number}");
        let submitted = Instant::now();
        fleet.submit(&id, "{\"content\":\"x\"}").await;
        fleet.redis.command(&["DEL", "hf1:{q/0}:bell"]).await;
        assert_eq!(fleet.result(&id).await.0, "answered");
        took.push(submitted.elapsed());
    }
    // A pause of the machine may meet three of them.
    took.sort();
    assert!(took[3] < Duration::from_secs_f64(POLL + 1.5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_caller_is_answered_soon_though_its_wake_up_is_lost() {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    fleet.gateway.hold(true);
    fleet.submit("k38", "{\"content\":\"x\"}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    let waiting = fleet.call("GET", "/v1/queues/q/requests/k38/result?wait=60", b"");
    let deaf = async {
        // The wait has begun once its caller has asked; then nobody may hear of the end.
        fleet.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        fleet.gateway.hold(false);
        Instant::now()
    };
    let (answer, released) = tokio::join!(waiting, deaf);
    assert_eq!(answer.header("holdfast-outcome"), Some("answered"));
    // It would have waited for a minute.
    assert!(released.elapsed() < Duration::from_secs(20), "it took {:?}", released.elapsed());
}
