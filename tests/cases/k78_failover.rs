//! K78: after a failover clients go on with the old primary.
//!
//! They write to what is a replica by now, or wait for an address where nobody is, until somebody restarts them.

use std::time::{Duration, Instant};

use holdfast_core::Redis;
use holdfast_core::redis::{Message, Options, Subscriber};
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{RedisServer, Relay, Sentinel, eventually};
use tokio::time::timeout;

use crate::callers::{Accepted, Callers};
use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::users::Users;
use crate::{aftermath, stage};

/// Writes must succeed again so soon after a promotion. What is asked for is 30 s; alone it takes less than eight.
const BACK: Duration = Duration::from_secs(20);

/// Of the two queues the answers of `q` are as safe as a replica makes them.
const BOTH: [&str; 2] = ["q", "plain"];

/// A fleet whose Redis is elsewhere.
async fn fleet(url: String, users: Option<&Users>) -> Fleet {
    let setup = Setup {
        redis_url: Some(url),
        redis: users.map(Users::lines).unwrap_or_default(),
        more: "[queues.plain]\ntarget = \"{gateway}\"\n".to_owned(),
        queue: "durability = \"replicated\"\nreplicas = 1".to_owned(),
        ..Setup::default()
    };
    // Its own server stays unused.
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    // Something is always under way.
    let slow = Rule::on_body("<").delay(Duration::from_millis(300));
    fleet.gateway.script(vec![slow]).expect("a rule");
    fleet
}

async fn roles(fleet: &Fleet) -> [Role; 2] {
    let roles = [fleet.worker(), fleet.reclaimer()];
    for role in &roles {
        fleet.ready(role.ops).await;
    }
    roles
}

/// Everything that was accepted ends as answered, and nothing else is there.
async fn all_are_answered(fleet: &Fleet, accepted: &[Accepted], roles: &[Role]) {
    assert!(accepted.len() > 20, "only {} were accepted", accepted.len());
    let mut forgotten = 0;
    for Accepted { queue, id, .. } in accepted {
        match stage::outcome(fleet, queue, id).await.as_deref() {
            Some("answered") => {}
            None if queue == "plain" => forgotten += 1,
            other => panic!("{queue}: {id}: {other:?}"),
        }
    }
    eprintln!("{} accepted, {forgotten} of queue plain forgotten", accepted.len());
    let told = stage::holdfastctl(fleet, &["queue", "ls"]).await;
    for row in told.as_array().expect("a list") {
        for home in ["pending", "suspects", "leased", "dead"] {
            assert_eq!(row["requests"][home], 0, "{row}");
        }
    }
    aftermath::nobody_panicked(fleet, &roles.iter().collect::<Vec<_>>());
    for role in roles {
        fleet.ready(role.ops).await;
    }
}

/// Two servers behind one name, which is given to the other: the connections to the first stand, and it refuses writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_became_a_replica_is_left_for_whoever_has_its_name_now() {
    let _shared = beside_others().await;
    let first = RedisServer::start().await;
    let of_first = format!("127.0.0.1 {}", first.port());
    let second = RedisServer::with(|it| {
        let words = ["--replicaof", &of_first, "--repl-diskless-sync-delay", "0"];
        it.args.extend(words.map(str::to_owned));
    });
    let (second, name) = (second.await, Relay::start(first.port()).await);
    first.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
    second.follows(&[first.port()], SOON).await;
    let fleet = fleet(name.url(), None).await;
    let roles = roles(&fleet).await;
    let callers = Callers::start(&fleet, &BOTH, Duration::from_millis(10));
    callers.under_way(&BOTH).await;

    name.lead_to(second.port());
    second.command(&["REPLICAOF", "NO", "ONE"]).await;
    first.command(&["REPLICAOF", "127.0.0.1", &second.port().to_string()]).await;
    let switched = Instant::now();
    let took = callers.heard_since(&BOTH, switched, BACK).await;
    eprintln!("accepted again {took:?} after the switch");
    // A while longer with both as they are now.
    pass(time(4.0)).await;
    let accepted = callers.stop().await;
    all_are_answered(&fleet, &accepted, &roles).await;
    let written = first.command(&["INFO", "commandstats"]).await;
    assert!(written.text().is_some_and(|text| text.contains("rejected_calls")), "nobody tried");
}

/// The primary of a Sentinel hangs; it is replaced, and comes back as a replica. The roles may do no more than they must.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_primary_is_left_for_the_one_that_sentinel_names() {
    let _shared = beside_others().await;
    let group = Sentinel::start(1).await;
    let users = Users::of_deploy(&[group.server(0), group.server(1)], &["+role"]).await;
    let fleet = fleet(group.url(), Some(&users)).await;
    let roles = roles(&fleet).await;
    let callers = Callers::start(&fleet, &BOTH, Duration::from_millis(10));
    callers.under_way(&BOTH).await;

    let frozen = Instant::now();
    group.server(0).pause();
    group.promoted(1, SOON).await;
    eprintln!("promoted after {:?}", frozen.elapsed());
    let took = callers.heard_since(&["plain"], Instant::now(), BACK).await;
    eprintln!("accepted again {took:?} after the promotion");
    pass(time(24.0).saturating_sub(frozen.elapsed())).await;
    group.server(0).resume();
    eprintln!("resumed after {:?}", frozen.elapsed());
    // Sentinel takes ten seconds to make a replica of it. Without one nothing can be as safe as `q` asks.
    group.replicating(1).await;
    let took = callers.heard_since(&BOTH, Instant::now(), BACK).await;
    eprintln!(
        "accepted again {took:?} after there is a replica, {:?} after the freeze",
        frozen.elapsed()
    );
    pass(time(4.0)).await;
    let accepted = callers.stop().await;
    eprintln!("stopped {:?} after the freeze", frozen.elapsed());
    all_are_answered(&fleet, &accepted, &roles).await;
}

/// Who only listens sends nothing, and so never learns that nobody is there any more: neither a refusal nor a lost
/// connection tells it.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_notices_that_its_server_hangs_and_hears_the_next_one() {
    let _shared = beside_others().await;
    let (first, second) = (RedisServer::start().await, RedisServer::start().await);
    let name = Relay::start(first.port()).await;
    let redis = Redis::open(Options::new(name.url())).expect("a client");
    let channel = "hf1:{q/0}:ended";
    let mut listener = Subscriber::open(&redis, vec![channel.to_owned()]).expect("a listener");
    assert_eq!(listener.next().await, Message::Subscribed);
    first.pause();
    name.lead_to(second.port());
    eventually("it hears who has the name now", SOON, async || {
        second.command(&["SPUBLISH", channel, "news"]).await;
        match timeout(Duration::from_millis(200), listener.next()).await {
            Ok(Message::Heard { bytes, .. }) if *bytes == *b"news" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
