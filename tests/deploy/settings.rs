//! The settings file of the manifests, and what they must agree on with it.

use std::time::Duration;

use holdfast_runtime::settings::GRACE;
use holdfast_runtime::{Environment, Settings};
use holdfast_testkit::Process;
use serde_json::Value;
use toml::Table;

use crate::rendered::{Pod, Rendered, list, pods};
use crate::valid::KUSTOMIZED;

/// A role's container in the manifests.
pub(crate) fn container<'a>(pods: &'a [Pod<'_>], role: &str) -> (&'a Value, &'a Value) {
    let owner = format!("Deployment holdfast-{role}");
    let pod = pods.iter().find(|pod| pod.owner == owner).expect("the role's Deployment");
    (pod.spec, &pod.spec["containers"][0])
}

/// The number of a container's port.
pub(crate) fn port(container: &Value, name: &str) -> Option<u16> {
    let port = list(&container["ports"]).iter().find(|port| port["name"] == name)?;
    port["containerPort"].as_u64()?.try_into().ok()
}

/// `256Mi` of Kubernetes, `1MiB` of the settings, `100mb` of Redis, in bytes.
fn bytes(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit {
        "" | "B" => 0,
        "Ki" | "KiB" | "kb" => 10,
        "Mi" | "MiB" | "mb" => 20,
        "Gi" | "GiB" | "gb" => 30,
        other => panic!("a size in {other}"),
    };
    number.parse::<u64>().expect("a number") << shift
}

fn limit(container: &Value) -> u64 {
    bytes(container["resources"]["limits"]["memory"].as_str().expect("a limit"))
}

/// A line of `redis.conf`.
fn of_redis<'a>(conf: &'a str, name: &str) -> &'a str {
    let line = conf.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("redis.conf has no {name}"))
}

#[tokio::test]
async fn every_role_takes_the_settings_file() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("holdfast.toml");
        std::fs::write(&path, rendered.settings()).unwrap();
        let arguments = ["check", "--no-files", "--config", path.to_str().unwrap()];
        let told = Process::run(env!("CARGO_BIN_EXE_it-holdfastctl"), &arguments, &[]).await;
        assert!(told.status.success(), "{folder}: {}", told.stderr);
    }
}

#[test]
fn each_role_listens_where_its_container_says() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let settings = Settings::load(rendered.settings(), &Environment::default()).unwrap();
        let pods = pods(&rendered.objects);
        for (role, ops) in [
            ("producer", settings.producer.ops_listen),
            ("worker", settings.worker.ops_listen),
            ("reclaimer", settings.reclaimer.ops_listen),
        ] {
            assert!(ops.ip().is_unspecified(), "{folder}: {role}: probes come from outside");
            assert_eq!(port(container(&pods, role).1, "ops"), Some(ops.port()), "{folder}: {role}");
        }
        let api = settings.producer.listen;
        assert!(api.ip().is_unspecified(), "{folder}");
        assert_eq!(port(container(&pods, "producer").1, "api"), Some(api.port()), "{folder}");
        let service = rendered.object("Service", "holdfast-producer");
        assert_eq!(service["spec"]["ports"][0]["targetPort"], "api", "{folder}");
    }
}

#[test]
fn a_pod_has_more_time_to_end_than_its_process_takes() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let settings = Settings::load(rendered.settings(), &Environment::default()).unwrap();
        assert!(settings.worker.drain < GRACE, "{folder}");
        let pods = pods(&rendered.objects);
        for role in ["producer", "worker", "reclaimer"] {
            let (spec, container) = container(&pods, role);
            let sleep = &container["lifecycle"]["preStop"]["sleep"]["seconds"];
            let before = Duration::from_secs(sleep.as_u64().unwrap_or(0));
            let granted =
                Duration::from_secs(spec["terminationGracePeriodSeconds"].as_u64().unwrap());
            assert!(granted >= before + GRACE + Duration::from_secs(5), "{folder}: {role}");
            // The listener closes with the signal: those who are still sent there would be refused.
            assert_eq!(role == "producer", !before.is_zero(), "{folder}: {role}");
        }
    }
}

#[test]
fn each_probe_asks_for_what_it_is_meant_to_say() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let pods = pods(&rendered.objects);
        for role in ["producer", "worker", "reclaimer"] {
            let (_, container) = container(&pods, role);
            for (probe, path) in [
                ("startupProbe", "/livez"),
                ("livenessProbe", "/livez"),
                ("readinessProbe", "/readyz"),
            ] {
                let get = &container[probe]["httpGet"];
                assert_eq!(
                    (&get["path"], &get["port"]),
                    (&path.into(), &"ops".into()),
                    "{role} {probe}"
                );
            }
        }
    }
}

#[test]
fn workers_may_call_the_gateway_of_the_settings() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let settings: Table = rendered.settings().parse().unwrap();
        let rules = &rendered.object("NetworkPolicy", "worker")["spec"]["egress"];
        for (name, queue) in settings["queues"].as_table().unwrap() {
            let target = queue["target"].as_str().unwrap();
            let (host, port) = target.strip_prefix("http://").unwrap().split_once(':').unwrap();
            let namespace = host.split('.').nth(1).unwrap();
            let lets_through = list(rules).iter().any(|rule| {
                let labels = &rule["to"][0]["namespaceSelector"]["matchLabels"];
                labels["kubernetes.io/metadata.name"] == namespace
                    && rule["ports"][0]["port"] == port.parse::<u64>().unwrap()
            });
            assert!(lets_through, "{folder}: queue {name}: {target}");
        }
    }
}

#[test]
fn roles_may_reach_the_port_of_redis_of_the_settings() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let settings: Table = rendered.settings().parse().unwrap();
        let port = settings["redis"]["url"].as_str().unwrap().rsplit(':').next().unwrap();
        let rule = &rendered.object("NetworkPolicy", "redis-access")["spec"]["egress"][0];
        assert_eq!(rule["ports"][0]["port"].to_string(), port, "{folder}");
        assert_eq!(list(&rule["ports"]).len(), 1, "{folder}");
    }
}

#[test]
fn what_may_be_held_at_once_fits_into_memory() {
    let Some(rendered) = Rendered::kustomized("base") else { return };
    let settings: Table = rendered.settings().parse().unwrap();
    let pods = pods(&rendered.objects);
    let queues: Vec<&Table> =
        settings["queues"].as_table().unwrap().values().map(|it| it.as_table().unwrap()).collect();
    let of = |queue: &Table, name: &str| bytes(queue[name].as_str().unwrap());
    let slots = settings["worker"]["concurrency"].as_integer().unwrap() as u64;
    // As docs/configuration.md counts it; the rest is for the process itself.
    let longest = |queue: &Table| of(queue, "body_limit") + of(queue, "answer_limit");
    let worst: u64 = queues.iter().map(|queue| slots * 2 * longest(queue) + (64 << 20)).sum();
    assert!(worst <= limit(container(&pods, "worker").1) * 4 / 5, "the worker");
    let bodies = 256 << 20;
    assert!(bodies <= limit(container(&pods, "producer").1) / 2, "the producer");

    let redis = pods.iter().find(|pod| pod.owner == "StatefulSet holdfast-redis").unwrap();
    let conf = redis_conf(&rendered);
    let most = bytes(of_redis(conf, "maxmemory"));
    assert!(most <= limit(&redis.spec["containers"][0]) * 3 / 5, "the reserve of Redis");
    let held: u64 = queues.iter().map(|queue| of(queue, "capacity_bytes")).sum();
    assert!(held <= most / 2, "what the queues may hold, and their indexes");
    let claim =
        &rendered.object("StatefulSet", "holdfast-redis")["spec"]["volumeClaimTemplates"][0];
    let disk = bytes(claim["spec"]["resources"]["requests"]["storage"].as_str().unwrap());
    assert!(disk >= 3 * most, "the file of changes, twice while it is rewritten");
}

/// `redis.conf` of the manifests.
pub(crate) fn redis_conf(rendered: &Rendered) -> &str {
    let text = rendered.of_kind("ConfigMap").find_map(|map| map["data"]["redis.conf"].as_str());
    text.expect("a ConfigMap with redis.conf")
}

#[test]
fn redis_keeps_what_it_has_acknowledged() {
    let Some(rendered) = Rendered::kustomized("base") else { return };
    let conf = redis_conf(&rendered);
    for (name, value) in [
        ("maxmemory-policy", "noeviction"),
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("dir", "/data"),
        ("aclfile", "/etc/redis/users.acl"),
    ] {
        assert_eq!(of_redis(conf, name), value, "{name}");
    }
}
