//! The settings as a whole: what is taken, what is refused, and what is told.

use std::time::Duration;

use holdfast_core::redis::Level;

use super::*;

mod docs;

const QUEUE: &str = "[queues.default]\ntarget = \"http://127.0.0.1:8000\"\n";

fn load(text: &str) -> Result<Settings, Problems> {
    Settings::load(text, &Environment::default())
}

/// The faults of a text, one a line.
fn faults(text: &str) -> Vec<String> {
    let problems = load(text).expect_err(text);
    assert!(!problems.is_empty(), "refused without a reason: {text}");
    problems.iter().map(ToString::to_string).collect()
}

/// The faults of a queue with this line.
fn queue_faults(line: &str) -> Vec<String> {
    faults(&format!("{QUEUE}{line}\n"))
}

#[test]
fn an_empty_file_means_the_defaults() {
    let settings = load("").unwrap();
    assert!(settings.queues.is_empty());
    assert_eq!(settings.redis.url.expose(), "redis://127.0.0.1:6379");
    assert_eq!(settings.producer.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.worker.lease, Duration::from_secs(15));
    assert_eq!(settings.worker.renew, Duration::from_secs(5));
    assert_eq!(settings.reclaimer.every, Duration::from_secs(1));
    assert_eq!(settings.log.format, LogFormat::Json);
}

#[test]
fn a_queue_needs_a_target_and_nothing_else() {
    let settings = load(QUEUE).unwrap();
    let queue = &settings.queues[&QueueName::try_from("default").unwrap()];
    let uri = queue.target.join(&queue.path).unwrap();
    assert_eq!(uri.to_string(), "http://127.0.0.1:8000/v1/chat/completions");
    assert_eq!((queue.shards.get(), queue.capacity, queue.max_lapses), (1, 100_000, 5));
    assert_eq!(queue.body_limit, 8 << 20);
    assert_eq!(queue.times.dead_retention, Duration::from_secs(7 * 86_400));
    assert_eq!(faults("[queues.default]").len(), 1);
    assert!(faults("[queues.default]")[0].starts_with("queues.default.target is missing"));
}

#[test]
fn leases_and_renewals_that_cannot_work_are_refused() {
    let unit = "must be one whole number and one unit";
    for (line, told) in [
        ("lease = \"500ms\"", "worker.lease = 500ms must be from 1s to 1h"),
        ("lease = \"0s\"", "worker.lease = 0s must be from 1s to 1h"),
        ("lease = 0", &format!("worker.lease = 0 {unit}")),
        ("lease = -1", &format!("worker.lease = -1 {unit}")),
        ("lease = \"-1s\"", &format!("worker.lease = -1s {unit}")),
        ("lease = \"5m \"", &format!("worker.lease = \"5m \" {unit}")),
        ("lease = \"15\"", &format!("worker.lease = 15 {unit}")),
        ("renew = \"15s\"", "worker.renew = 15s must be at most half of worker.lease"),
        ("renew = \"20s\"", "worker.renew = 20s must be at most half of worker.lease"),
        ("renew = \"0s\"", "worker.renew = 0s must be from 10ms to 30m"),
        ("drain = \"31s\"", "worker.drain = 31s must be at most 28s"),
        ("concurrency = 0", "worker.concurrency = 0 must be from 1 to 10000"),
        ("concurrency = 1.5", "worker.concurrency = 1.5 must be a whole number"),
        ("queues = []", "worker.queues = (a list) must be a list of at least one name"),
        ("queues = [\"gone\"]", "worker.queues = [\"gone\"] must name queues that are declared"),
        ("name = \"a b\"", "worker.name = a b must be 1 to 63"),
    ] {
        let found = faults(&format!("[worker]\n{line}\n"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(told), "{line}: {}", found[0]);
    }
    for (every, told) in [
        ("0s", "reclaimer.every = 0s must be from 10ms to 10m"),
        ("6s", "reclaimer.every = 6s must be at most a third of worker.lease"),
    ] {
        assert_eq!(faults(&format!("[reclaimer]\nevery = \"{every}\"\n")), [told]);
    }
}

#[test]
fn a_renewal_follows_the_lease_unless_somebody_says_otherwise() {
    let worker = load("[worker]\nlease = \"6s\"").unwrap().worker;
    assert_eq!((worker.lease, worker.renew), (Duration::from_secs(6), Duration::from_secs(2)));
    let worker = load("[worker]\nrenew = \"500ms\"").unwrap().worker;
    assert_eq!(worker.renew, Duration::from_millis(500));
}

#[test]
fn a_queue_that_cannot_work_is_refused() {
    for (line, told) in [
        ("max_lapses = 3", "queues.default.max_lapses = 3 must be from 4 to 100"),
        ("retention = \"9m\"", "queues.default.retention = 9m must be from 10m to 365d"),
        ("dead_retention = \"1m\"", "queues.default.dead_retention = 1m must be from 10m to 365d"),
        (
            "timeout_default = \"31d\"",
            "queues.default.timeout_default = 31d must be from 1s to 30d",
        ),
        ("body_limit = \"0B\"", "queues.default.body_limit = 0B must be from 1B to 256MiB"),
        ("body_limit = \"8MB\"", "queues.default.body_limit = 8MB must be one whole number"),
        ("shards = 0", "queues.default.shards = 0 must be from 1 to 256"),
        ("max_attempts = 0", "queues.default.max_attempts = 0 must be from 1 to 1000000"),
        ("shards = 4\ncapacity = 3", "queues.default.capacity = 3 must be at least the number"),
        ("shards = 4\nin_flight = 3", "queues.default.in_flight = 3 must be at least the number"),
        (
            "shards = 4\ncapacity_bytes = \"31MiB\"",
            "queues.default.capacity_bytes = 31MiB must hold one body of body_limit in each shard",
        ),
        ("http = 3", "queues.default.http = 3 must be auto, 1 or 2"),
        ("path = \"v1\"", "queues.default.path = v1 must be a path"),
        ("ca_file = \"ca.pem\"", "queues.default.ca_file = ca.pem needs TLS"),
        ("client_key_file = \"k\"", "queues.default.client_key_file = k needs client_cert_file"),
        ("durability = \"fast\"", "queues.default.durability = fast must be acknowledged"),
        ("streams = 0", "queues.default.streams = 0 must be from 1 to 100000"),
        ("breaker = \"yes\"", "queues.default.breaker = yes must be true or false"),
        ("targt = \"x\"", "queues.default.targt is no setting of [queues.default]"),
    ] {
        let found = queue_faults(line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(told), "{line}: {}", found[0]);
    }
}

#[test]
fn what_a_request_may_say_of_its_call_is_listed_and_nothing_else() {
    let text = |lines: &str| format!("{QUEUE}{lines}\n");
    let lines = "allow_paths = [\"/v1/embeddings\"]\nallow_headers = [\"X-Priority\"]";
    let settings = load(&text(lines)).unwrap();
    let allowed = &settings.queues[&QueueName::try_from("default").unwrap()].allowed;
    assert!(allowed.path("/v1/embeddings") && allowed.path("/v1/chat/completions"));
    assert!(!allowed.path("/v1/models") && allowed.header("x-priority"));
    assert!(settings.show().contains("allow_headers = [\"x-priority\"]"));

    for (line, told) in [
        ("allow_paths = \"/v1/x\"", "allow_paths = /v1/x must be a list of paths"),
        ("allow_paths = [\"/v1/../x\"]", "allow_paths = (a list) must be a list of paths"),
        ("allow_headers = [\"x a\"]", "allow_headers = (a list) must be a list of names"),
        ("allow_headers = [\"Host\"]", "allow_headers = [\"host\"] must not list host: it follows"),
        (
            "allow_headers = [\"x-a\", \"Authorization\"]",
            "allow_headers = [\"x-a\", \"authorization\"] must not list authorization: credentials",
        ),
    ] {
        let found = queue_faults(line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(&format!("queues.default.{told}")), "{}", found[0]);
    }
}

#[test]
fn an_open_address_without_keys_is_refused_naming_all_three() {
    for address in ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080"] {
        let found = faults(&format!("[producer]\nlisten = \"{address}\"\n"));
        assert_eq!(found.len(), 1);
        for name in ["producer.listen = ", "producer.keys_file", "producer.allow_anonymous"] {
            assert!(found[0].contains(name), "{}", found[0]);
        }
        let text = format!("[producer]\nlisten = \"{address}\"\nallow_anonymous = true\n");
        assert!(load(&text).unwrap().producer.allow_anonymous);
        let keyed = format!("[producer]\nlisten = \"{address}\"\nkeys_file = \"keys\"\n");
        assert!(load(&keyed).unwrap().producer.keys_file.is_some());
        let both = faults(&format!("{keyed}allow_anonymous = true\n"));
        assert!(
            both[0].starts_with("producer.allow_anonymous = true stands beside"),
            "{}",
            both[0]
        );
    }
    assert!(load("[producer]\nlisten = \"[::1]:8080\"").is_ok());
    let same = "[producer]\nops_listen = \"127.0.0.1:8080\"\n";
    assert!(faults(same)[0].starts_with("producer.ops_listen = 127.0.0.1:8080 must differ"));
    assert!(load("[producer]\nlisten = \"127.0.0.1:0\"\nops_listen = \"127.0.0.1:0\"").is_ok());
}

#[test]
fn traces_go_to_a_collector_without_tls_or_nowhere() {
    let traces = |endpoint: &str| load(&format!("[traces]\nendpoint = \"{endpoint}\""));
    assert_eq!(load("").unwrap().traces.endpoint, None);
    for (endpoint, uri) in [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
        ("http://h/otlp", "http://h/otlp/v1/traces"),
    ] {
        let settings = traces(endpoint).unwrap();
        assert_eq!(settings.traces.endpoint.unwrap().traces(), uri);
    }
    for endpoint in ["", "h:4318", "https://h", "http://u:S3CRET@h", "http://h?key=S3CRET"] {
        let told = traces(endpoint).unwrap_err().to_string();
        assert!(told.starts_with("traces.endpoint must be the base URL of a coll"), "{told}");
        assert!(!told.contains("S3CRET"), "{told}");
    }
}

#[test]
fn a_tenants_limits_leave_each_shard_of_each_queue_something() {
    let with = |limits: &str| {
        format!("{QUEUE}shards = 4\nbody_limit = \"1MiB\"\n[tenants.\"a.b\"]\n{limits}\n")
    };
    for (limits, told) in [
        (
            "queued = 3",
            "tenants.a.b.queued = 3 must be at least the number of shards of queues.default",
        ),
        (
            "submits_per_second = 3",
            "tenants.a.b.submits_per_second = 3 must be at least the number",
        ),
        (
            "bytes = \"3MiB\"",
            "tenants.a.b.bytes = 3MiB must hold one body of body_limit in each shard of queues.default",
        ),
    ] {
        let found = faults(&with(limits));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(told), "{}", found[0]);
    }
    let settings = load(&with("queued = 4\nbytes = \"4MiB\"\nsubmits_per_second = 4")).unwrap();
    let limits = settings.tenants.values().next().unwrap();
    assert_eq!(
        (limits.queued, limits.bytes, limits.submits_per_second),
        (Some(4), Some(4 << 20), Some(4))
    );
}

#[test]
fn a_queue_says_what_is_waited_for_before_it_answers() {
    let level = |text: &str| {
        let settings = load(&format!("[queues.q]\ntarget = \"http://h\"\n{text}")).unwrap();
        settings.queues.values().next().unwrap().level()
    };
    assert_eq!(level(""), None);
    assert_eq!(level("durability = \"acknowledged\"\nreplicas = 2"), None);
    assert_eq!(level("durability = \"fsynced\""), Some(Level::Fsynced));
    assert_eq!(level("durability = \"replicated\""), Some(Level::Replicated(1)));
    assert_eq!(level("durability = \"replicated\"\nreplicas = 2"), Some(Level::Replicated(2)));
    for replicas in ["0", "17"] {
        let found = faults(&format!("[queues.q]\ntarget = \"http://h\"\nreplicas = {replicas}"));
        assert!(found[0].contains("replicas"), "{found:?}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let found = faults(
        "bogus = 1\n[wroker]\n[worker]\nlease = \"500ms\"\nleese = \"1s\"\nconcurrency = \"64\"\n\
         [reclaimer]\nevery = \"0s\"\n[queues.Q]\ntarget = \"http://h\"\n[queues.q]\nshards = 0\n\
         [tenants]\na = 1\n",
    );
    for told in [
        "[bogus] is no section",
        "[wroker] is no section",
        "worker.lease = 500ms must be",
        "worker.leese is no setting of [worker]",
        "worker.concurrency = 64 must be a whole number, without quotes",
        "reclaimer.every = 0s must be",
        "queues.Q is no name: it must be 1 to 63",
        "queues.q.target is missing",
        "queues.q.shards = 0 must be",
        "tenants.a must be a section",
    ] {
        assert!(found.iter().any(|fault| fault.starts_with(told)), "{told}: {found:?}");
    }
    assert_eq!(found.len(), 10, "{found:?}");
}

#[test]
fn the_environment_wins_over_the_file_and_is_named_where_it_is_wrong() {
    let with = |variables: &[(&str, &str)]| {
        Settings::load("[worker]\nlease = \"6s\"", &Environment::new(variables.iter().copied()))
    };
    let settings =
        with(&[("HOLDFAST_WORKER_LEASE", "9s"), ("HOLDFAST_WORKER_CONCURRENCY", "8")]).unwrap();
    assert_eq!(settings.worker.lease, Duration::from_secs(9));
    assert_eq!(settings.worker.concurrency, 8);
    for (variable, value, told) in [
        ("HOLDFAST_WORKER_LEASE", "", "worker.lease = \"\" (from HOLDFAST_WORKER_LEASE) must be"),
        ("HOLDFAST_WORKER_LEESE", "1s", "worker.leese (from HOLDFAST_WORKER_LEESE) is no setting"),
        ("HOLDFAST_RECLAIMER_EVERY", "3s", "reclaimer.every = 3s (from HOLDFAST_RECLAIMER_EVERY)"),
        ("HOLDFAST_QUEUES_Q_SHARDS", "1", "HOLDFAST_QUEUES_Q_SHARDS is no setting"),
        ("HOLDFAST_WORKERS", "1", "HOLDFAST_WORKERS is no setting"),
    ] {
        let told_of = with(&[(variable, value)]).unwrap_err().to_string();
        assert!(told_of.starts_with(told), "{told_of}");
    }
}

#[test]
fn redis_is_described_once_and_consistently() {
    for (lines, told) in [
        ("url = \"redis://h:1\"\nca_file = \"ca\"", "redis.ca_file = ca needs TLS"),
        (
            "url = \"redis://:p@h:1\"\npassword_file = \"f\"",
            "redis.password_file = f stands beside",
        ),
        ("url = \"redis://u:p@h:1\"\nusername = \"v\"", "redis.username = v stands beside"),
        (
            "url = \"rediss://h\"\nca_file = \"ca\"\nclient_cert_file = \"c\"",
            "redis.client_cert_file = c needs client_key_file",
        ),
        (
            "url = \"rediss://h\"\nclient_cert_file = \"c\"\nclient_key_file = \"k\"",
            "redis.client_cert_file = c needs ca_file",
        ),
        ("command_timeout = \"0s\"", "redis.command_timeout = 0s must be from 10ms to 1m"),
        ("url = \"h:1\"", "redis.url must be an address"),
    ] {
        let found = faults(&format!("[redis]\n{lines}\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(told), "{}", found[0]);
    }
}

#[test]
fn no_secret_is_told_whatever_is_wrong_with_it() {
    for text in [
        "[redis]\nurl = \"redis://ad:S3CRET@h:x\"",
        "[redis]\nurl = [\"redis://ad:S3CRET@h\"]",
        "[redis]\nurl = \"redis://ad:S3CRET@h\"\npassword_file = \"f\"",
        "[redis]\npassword = \"S3CRET\"",
        "[redis]\nurl = \"redis://ad:S3CRET@h\n",
        "[redis]\nurl = \"redis://h\" S3CRET",
        "[queues.q]\ntarget = \"http://ad:S3CRET@h\"",
    ] {
        let problems = load(text).unwrap_err();
        assert!(!format!("{problems} {problems:?}").contains("S3CRET"), "{problems}");
    }
    let settings = load("[redis]\nurl = \"redis://ad:S3CRET@redis.example:7000\"").unwrap();
    let told = format!("{settings:?}{}", settings.show());
    assert!(!told.contains("S3CRET") && told.contains("redis.example:7000"), "{told}");
}

#[test]
fn a_text_that_is_no_toml_is_told_by_its_place() {
    assert_eq!(
        faults("[worker]\nlease = \"6s\"\nrenew = oops\n"),
        ["the settings file is no TOML at line 3, column 9"]
    );
}

#[test]
fn what_is_shown_can_be_read_again_and_means_the_same() {
    let text = "[worker]\nlease = \"90s\"\nqueues = [\"a.b\"]\n\
        [queues.\"a.b\"]\ntarget = \"https://h/base/\"\nin_flight = 7\nhttp = 2\n";
    let shown = load(text).unwrap().show();
    for line in ["lease = \"90s\"", "renew = \"30s\"", "[queues.\"a.b\"]", "# name is not set"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert_eq!(load(&shown).unwrap().show(), shown);
}
