//! Each role's user of Redis may do what the role does, and nothing more.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::keys::ShardKeys;
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Process, Value, eventually};

use crate::monitor::Monitor;
use crate::rendered::root;
use crate::stage::{Running, SOON, Stage};
use crate::starts::refusal;

/// Rights for what a test can't bring about.
const SELDOM: &[(&str, &str)] = &[
    // The text of a script travels along if Redis forgets it between load and call.
    ("producer", "eval"),
    ("worker", "eval"),
    ("reclaimer", "eval"),
    ("operator", "eval"),
    // Operators' calls, and what of a script only they or a worker need; `doctor` below knows of all of it.
    ("producer", "exists"),
    ("producer", "hexists"),
    ("producer", "hrandfield"),
    ("producer", "zcount"),
    ("producer", "zrange"),
    ("producer", "zrangebyscore"),
    ("producer", "zrank"),
    ("reclaimer", "zscore"),
    // Asked where every lease that lapses in a pass ends its request.
    ("reclaimer", "exists"),
    ("operator", "zrange"),
    // A script is loaded by whoever needs it first.
    ("operator", "script|load"),
    // Counts what is not late, while the clock of Redis has leapt.
    ("worker", "zcount"),
    // Asked where a claim is repeated, and of the suspect that is out.
    ("worker", "zscore"),
];

/// Times that let a lease lapse soon, and which queues are served; each role checks the whole file.
const QUICK: &[(&str, &str)] = &[
    ("HOLDFAST_WORKER_LEASE", "3s"),
    ("HOLDFAST_WORKER_RENEW", "1s"),
    ("HOLDFAST_RECLAIMER_EVERY", "500ms"),
    ("HOLDFAST_WORKER_QUEUES", "default,once"),
];

/// A queue in which one failure is the last, one that no worker serves, and limits of the tenant.
const MORE: &str = "\
[queues.once]
target = \"http://gateway.inference.svc.cluster.local:8000\"
max_attempts = 1

[queues.idle]
target = \"http://gateway.inference.svc.cluster.local:8000\"

[tenants.acme]
queued = 1000
bytes = \"100MiB\"
submits_per_second = 1000
";

#[tokio::test(flavor = "multi_thread")]
async fn each_user_of_redis_has_the_rights_that_its_role_uses_and_no_other() {
    let target = |port| format!("http://127.0.0.1:{port}");
    let Some(stage) = Stage::set(target, MORE).await else { return };
    let mut monitor = Monitor::start(&stage.redis);
    let (api, mut reclaimer) = (stage.start("producer", QUICK), stage.start("reclaimer", QUICK));
    stage.probed("producer", &api).await;
    stage.probed("reclaimer", &reclaimer).await;

    waits_in_vain(&stage, &api).await;
    let mut worker = stage.start("worker", QUICK);
    stage.probed("worker", &worker).await;
    ends_of_every_kind(&stage, &api, &mut reclaimer).await;
    outlives_its_worker(&stage, &mut monitor, &api, &mut worker).await;
    let heir = stage.start("worker", QUICK);
    assert_eq!(stage.outcome(&api, "default", "outlives").await, "answered");
    swept(&stage, &api).await;
    // A probe has Redis looked at for the next one.
    for (role, running) in [("producer", &api), ("reclaimer", &reclaimer), ("worker", &heir)] {
        stage.probed(role, running).await;
    }
    holds_one(&stage, &api).await;
    monitor.look(&stage.redis).await;
    looked_into(&stage).await;

    assert_eq!(denied(&stage).await, BTreeSet::new());
    let (granted, used) = (granted(), monitor.used(&stage.redis, "operator").await);
    let mut useless = Vec::new();
    for (user, granted) in &granted {
        let seldom = |command: &String| SELDOM.contains(&(user.as_str(), command.as_str()));
        let idle = granted.difference(&used[user]).filter(|command| !seldom(command));
        useless.extend(idle.map(|command| format!("{user}: {command}")));
    }
    assert_eq!(useless, [""; 0], "granted, and used by nobody");

    // That nothing was denied says something only if a denial is seen.
    stage.redis.command(&["ACL", "SETUSER", "reclaimer", "-zcard"]).await;
    eventually("a missing right is told", SOON, async || {
        let wanted = "reclaimer: zcard";
        if denied(&stage).await.contains(wanted) { Ok(()) } else { Err("not yet") }
    })
    .await;
}

/// What was denied so far: whom, and what.
async fn denied(stage: &Stage) -> BTreeSet<String> {
    let log = stage.redis.command(&["ACL", "LOG"]).await;
    let entry = |entry: &Value| {
        let parts = entry.array().unwrap_or_default();
        let field = |name: &str| {
            let at = parts.iter().position(|part| part.text() == Some(name))?;
            parts.get(at + 1)?.text()
        };
        format!("{}: {}", field("username").unwrap_or("?"), field("object").unwrap_or("?"))
    };
    log.array().expect("a log").iter().map(entry).collect()
}

/// Without a worker: one is cancelled, one passes its deadline.
async fn waits_in_vain(stage: &Stage, api: &Running) {
    stage.submit(api, "default", "withdrawn", "1m").await;
    let told = stage.call(api, "DELETE", "default/requests/withdrawn", "").await;
    assert!(told.status < 300, "{}", told.text());
    stage.submit(api, "default", "late", "1s").await;
    assert_eq!(stage.outcome(api, "default", "late").await, "deadline-exceeded");
    assert_eq!(stage.outcome(api, "default", "withdrawn").await, "cancelled");
}

/// Answered at the second try, given up at once, cancelled on the way.
async fn ends_of_every_kind(stage: &Stage, api: &Running, reclaimer: &mut Running) {
    let rules = vec![
        Rule::on_body("<again>").times(1).status(503),
        Rule::on_body("<dies>").cut_after(0),
        Rule::on_body("<stopped>").hang(),
    ];
    stage.gateway.script(rules).expect("rules");
    stage.submit(api, "default", "stopped", "1m").await;
    stage.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    stage.call(api, "DELETE", "default/requests/stopped", "").await;
    assert_eq!(stage.outcome(api, "default", "stopped").await, "cancelled");
    // Who promotes what has backed off is a race, which the worker is to win this time.
    reclaimer.process.freeze();
    stage.submit(api, "default", "again", "1m").await;
    assert_eq!(stage.outcome(api, "default", "again").await, "answered");
    reclaimer.process.wake();
    stage.submit(api, "once", "dies", "1m").await;
    assert_eq!(stage.outcome(api, "once", "dies").await, "gave-up");
}

/// A worker is killed with a call in it.
async fn outlives_its_worker(
    stage: &Stage,
    monitor: &mut Monitor,
    api: &Running,
    worker: &mut Running,
) {
    let before = stage.gateway.counts().arrived;
    stage.gateway.script(Vec::new()).expect("no rules");
    stage.gateway.hold(true);
    stage.submit(api, "default", "outlives", "1m").await;
    stage.gateway.wait_for_arrivals(before + 1, SOON).await.expect("dispatched");
    let first = lease_end(stage).await;
    eventually("its lease is renewed", SOON, async || {
        if lease_end(stage).await > first { Ok(()) } else { Err("not yet") }
    })
    .await;
    monitor.look(&stage.redis).await;
    worker.process.kill();
    stage.gateway.hold(false);
}

/// When the one lease of the default queue ends.
async fn lease_end(stage: &Stage) -> u64 {
    let leased = &ShardKeys::new(&"default".try_into().unwrap(), 0).leased;
    let told = stage.redis.command(&["ZRANGE", leased, "0", "0", "WITHSCORES"]).await;
    let leases = told.array().expect("leases");
    leases[1].text().expect("its end").parse().expect("milliseconds")
}

/// What ended is forgotten once its time is over, which is made to be now.
async fn swept(stage: &Stage, api: &Running) {
    let now = "for _, it in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, it) end";
    let finished = ShardKeys::new(&"default".try_into().unwrap(), 0).finished;
    stage.redis.command(&["EVAL", now, "1", &finished]).await;
    eventually("it is forgotten", SOON, async || {
        let told = stage.call(api, "GET", "default/requests/outlives", "").await;
        if told.status == 404 { Ok(()) } else { Err(told.text().to_owned()) }
    })
    .await;
}

/// A call stays under way, and a request waits.
async fn holds_one(stage: &Stage, api: &Running) {
    let before = stage.gateway.counts().arrived;
    stage.submit(api, "idle", "waits", "1m").await;
    stage.gateway.hold(true);
    stage.submit(api, "default", "held", "1m").await;
    stage.gateway.wait_for_arrivals(before + 1, SOON).await.expect("dispatched");
}

/// An operator looks at queues, leases and dead letters.
async fn looked_into(stage: &Stage) {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let settings = format!("[redis]\nurl = \"{}\"\n", stage.redis.url());
    std::fs::write(place("holdfast.toml"), settings).unwrap();
    std::fs::write(place("password"), stage.password("operator")).unwrap();
    let password = place("password");
    let environment =
        [("HOLDFAST_REDIS_USERNAME", "operator"), ("HOLDFAST_REDIS_PASSWORD_FILE", &*password)];
    for (list, wanted) in [("queue", "default"), ("lease", "held"), ("dead", "dies")] {
        let arguments = [list, "ls", "--config", &place("holdfast.toml")];
        let program = env!("CARGO_BIN_EXE_it-holdfastctl");
        let told = Process::run(program, &arguments, &environment).await;
        assert!(told.status.success(), "{list} ls: {}", told.stderr);
        assert!(told.stdout.contains(wanted), "{list} ls: {}", told.stdout);
    }
}

/// `doctor` knows every command that a role may ever send, and asks Redis whether its user may.
#[tokio::test]
async fn the_doctor_finds_no_right_missing() {
    let target = |port| format!("http://127.0.0.1:{port}");
    let Some(stage) = Stage::set(target, "").await else { return };
    let redis = format!("redis://tester:-@127.0.0.1:{}", stage.redis.port());
    let asked = |worker: &str| {
        let users = ["producer=producer", worker, "reclaimer=reclaimer"];
        let users = users.iter().flat_map(|user| ["--user", *user]);
        let words = ["doctor", "--redis", &redis].into_iter().chain(users);
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let program = env!("CARGO_BIN_EXE_it-holdfastctl");
    let told = Process::run(program, &asked("worker=worker"), &[]).await;
    assert!(!told.stdout.contains("-denied"), "{}", told.stdout);
    assert!(!told.stdout.contains("rights-unknown"), "{}", told.stdout);
    assert!(!told.stdout.contains("no-such-user"), "{}", told.stdout);
    // A user with too little is seen.
    let told = Process::run(program, &asked("worker=probe"), &[]).await;
    assert!(told.stdout.contains("command-denied"), "{}{}", told.stdout, told.stderr);
}

/// The commands that `users.acl` grants to each role.
fn granted() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("deploy/base/redis/users.acl")).unwrap();
    let users = text.lines().filter_map(|line| line.strip_prefix("user ")?.split_once(' '));
    let roles = users.filter(|(user, _)| !["default", "probe"].contains(user));
    let commands = |rules: &str| {
        rules.split(' ').filter_map(|rule| rule.strip_prefix('+')).map(str::to_owned).collect()
    };
    roles.map(|(user, rules)| (user.to_owned(), commands(rules))).collect()
}

#[test]
fn no_user_is_granted_a_whole_category() {
    let granted = granted();
    assert_eq!(granted.len(), 4, "producer, worker, reclaimer, operator");
    for (user, commands) in granted {
        assert!(commands.iter().all(|command| !command.starts_with('@')), "{user}: {commands:?}");
    }
}

#[tokio::test]
async fn no_user_of_a_role_reaches_other_keys_channels_or_commands() {
    let target = |port| format!("http://127.0.0.1:{port}");
    let Some(stage) = Stage::set(target, "").await else { return };
    for user in ["producer", "worker", "reclaimer", "operator"] {
        let (client, told) = stage.log_in(user, &stage.password(user)).await;
        assert_eq!(told.text(), Some("OK"), "{user}: {told:?}");
        for words in [
            &["HGETALL", "other"][..],
            &["HMGET", "hf2:x", "field"],
            &["EVAL", "return redis.call('HGETALL', 'other')", "0"],
            &["SSUBSCRIBE", "other"],
            &["FLUSHALL"],
            &["KEYS", "*"],
            &["CONFIG", "GET", "*"],
            &["ACL", "LIST"],
            &["SCRIPT", "FLUSH"],
            &["CLIENT", "LIST"],
            &["MONITOR"],
            &["SHUTDOWN"],
            &["SELECT", "1"],
        ] {
            let told = refusal(&client, words).await;
            // A script that is refused: as Valkey says it, and as Redis 7.0 does.
            let refused = ["NOPERM", "ACL failure in script", "executing the script can't"];
            let refused = refused.iter().any(|word| told.contains(word));
            assert!(refused, "{user}: {words:?}: {told}");
        }
    }
}
