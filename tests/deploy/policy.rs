//! What every pod must be: the Pod Security profile "restricted", and what is stricter here. Who may reach whom.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::rendered::{Pod, Rendered, list, pods};
use crate::valid::{EXAMPLES, KUSTOMIZED, has};

/// Kinds of volumes that the profile allows.
const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

#[test]
fn every_pod_is_restricted_and_stricter() {
    let mut seen = 0;
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let namespace = &rendered.object("Namespace", "holdfast")["metadata"]["labels"];
        assert_eq!(namespace["pod-security.kubernetes.io/enforce"], "restricted");
        for pod in pods(&rendered.objects) {
            seen += 1;
            assert_eq!(breaches(pod.spec), [""; 0], "{folder}: {}", pod.owner);
        }
    }
    assert_eq!(seen, 4 + 3);
    for file in EXAMPLES {
        let Some(read) = Rendered::file(file) else { return };
        for pod in pods(&read.objects) {
            assert_eq!(breaches(pod.spec), [""; 0], "{file}: {}", pod.owner);
        }
    }
}

#[test]
fn each_breach_of_the_profile_is_told() {
    let Some(operator) = Rendered::file("examples/operator.yaml") else { return };
    let good = pods(&operator.objects)[0].spec.clone();
    assert_eq!(breaches(&good), [""; 0]);
    let (container, pod) = ("/containers/0/securityContext", "/securityContext");
    for (at, name, value) in [
        ("", "hostNetwork", json!(true)),
        ("", "hostPID", json!(true)),
        ("", "hostIPC", json!(true)),
        ("", "automountServiceAccountToken", json!(true)),
        ("", "enableServiceLinks", json!(true)),
        ("", "volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
        ("", "initContainers", json!([{"name": "i", "image": "i:1"}])),
        (pod, "runAsNonRoot", json!(false)),
        (pod, "runAsUser", json!(0)),
        (pod, "seccompProfile", json!({"type": "Unconfined"})),
        (pod, "sysctls", json!([{"name": "kernel.msgmax", "value": "1"}])),
        (container, "privileged", json!(true)),
        (container, "allowPrivilegeEscalation", json!(true)),
        (container, "readOnlyRootFilesystem", json!(false)),
        (container, "capabilities", json!({"drop": ["ALL"], "add": ["SYS_ADMIN"]})),
        (container, "capabilities", json!({"drop": ["NET_RAW"]})),
        (container, "procMount", json!("Unmasked")),
        (container, "runAsUser", json!(0)),
        (container, "seccompProfile", json!({"type": "Unconfined"})),
        ("/containers/0", "image", json!("registry.example/holdfast:latest")),
        ("/containers/0", "image", json!("registry.example:5000/holdfast")),
        ("/containers/0", "resources", json!({"requests": {"cpu": "1", "memory": "1Mi"}})),
        ("/containers/0", "resources", json!({"limits": {"memory": "1Mi"}})),
        ("/containers/0", "ports", json!([{"containerPort": 80, "hostPort": 80}])),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(at).expect("a place")[name] = value.clone();
        assert!(!breaches(&bad).is_empty(), "{at}/{name} = {value} is not told");
    }
}

/// What a pod does that it may not, each in one line.
fn breaches(spec: &Value) -> Vec<String> {
    let mut told = Vec::new();
    let mut rule = |holds: bool, what: &str| {
        if !holds {
            told.push(what.to_owned());
        }
    };
    for name in ["hostNetwork", "hostPID", "hostIPC"] {
        rule(is_unset_or(&spec[name], false), name);
    }
    rule(spec["automountServiceAccountToken"] == false, "it mounts a token");
    rule(spec["enableServiceLinks"] == false, "it gets variables of other Services");
    let pod = &spec["securityContext"];
    rule(pod["runAsNonRoot"] == true, "it may run as root");
    rule(pod["runAsUser"].as_u64().is_some_and(|uid| uid > 0), "no uid of its own");
    rule(pod["seccompProfile"]["type"] == "RuntimeDefault", "no seccomp profile");
    rule(pod["sysctls"].is_null(), "sysctls");
    for volume in list(&spec["volumes"]) {
        let kinds = volume.as_object().map(|volume| volume.keys().filter(|key| *key != "name"));
        let allowed = kinds.is_some_and(|mut kinds| kinds.all(|kind| VOLUMES.contains(&&**kind)));
        rule(allowed, "a kind of volume that is not allowed");
    }
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    for container in containers.iter().flat_map(|name| list(&spec[name])) {
        let own = &container["securityContext"];
        rule(is_unset_or(&own["privileged"], false), "privileged");
        rule(own["allowPrivilegeEscalation"] == false, "it may gain rights");
        rule(own["readOnlyRootFilesystem"] == true, "its root can be written");
        rule(own["capabilities"] == json!({"drop": ["ALL"]}), "it has capabilities");
        rule(is_unset_or(&own["procMount"], "Default"), "procMount");
        rule(is_unset_or(&own["runAsNonRoot"], true), "the container may run as root");
        rule(own["runAsUser"].as_u64() != Some(0), "the container runs as root");
        let seccomp = &own["seccompProfile"];
        rule(seccomp.is_null() || seccomp["type"] == "RuntimeDefault", "its own seccomp profile");
        rule(
            is_versioned(container["image"].as_str().unwrap_or_default()),
            "no version of its image",
        );
        let resources = &container["resources"];
        rule(!resources["limits"]["memory"].is_null(), "no limit of memory");
        for name in ["cpu", "memory"] {
            rule(!resources["requests"][name].is_null(), "it does not say what it needs");
        }
        rule(
            list(&container["ports"]).iter().all(|port| port["hostPort"].is_null()),
            "a host port",
        );
    }
    told
}

fn is_unset_or(value: &Value, allowed: impl Into<Value>) -> bool {
    value.is_null() || *value == allowed.into()
}

/// Whether an image is named by a digest or by a tag that does not move by itself.
fn is_versioned(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    image.contains("@sha256:") || last.split_once(':').is_some_and(|(_, tag)| tag != "latest")
}

#[test]
fn each_workload_has_an_account_of_its_own_without_a_token() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let pods = pods(&rendered.objects);
        let used: BTreeSet<_> =
            pods.iter().map(|pod| pod.spec["serviceAccountName"].as_str().unwrap()).collect();
        assert_eq!(used.len(), pods.len(), "{folder}: an account is shared");
        for name in used {
            let account = rendered.object("ServiceAccount", name);
            assert_eq!(account["automountServiceAccountToken"], false, "{folder}: {name}");
        }
    }
}

#[test]
fn nothing_comes_in_or_goes_out_unless_it_is_named() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        let deny = &rendered.object("NetworkPolicy", "default-deny")["spec"];
        assert_eq!(*deny, json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
        for policy in rendered.of_kind("NetworkPolicy") {
            assert_eq!(
                everybody(&policy["spec"]),
                [""; 0],
                "{folder}: {}",
                policy["metadata"]["name"]
            );
        }
        // Whoever calls has a key; who may try one is named all the same.
        let producer = settings_of(&rendered);
        assert!(producer.contains_key("keys_file") && !producer.contains_key("allow_anonymous"));
        let doors: Vec<&Value> = rendered
            .of_kind("NetworkPolicy")
            .filter(|policy| list(&policy["spec"]["ingress"]).iter().any(|rule| opens(rule, "api")))
            .collect();
        assert_eq!(doors.len(), 1, "{folder}: one policy lets callers in");
        let from = list(&doors[0]["spec"]["ingress"][0]["from"]);
        assert!(from.iter().all(|from| !from["namespaceSelector"]["matchLabels"].is_null()));
    }
}

/// `[producer]` of the settings.
fn settings_of(rendered: &Rendered) -> toml::Table {
    let settings: toml::Table = rendered.settings().parse().unwrap();
    settings["producer"].as_table().unwrap().clone()
}

/// Rules of a policy that name nobody, and so let everybody through.
fn everybody(spec: &Value) -> Vec<String> {
    let mut told = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in list(&spec[direction]) {
            let open = |peer: &Value| {
                let empty = |name: &str| peer[name] == json!({});
                let whole = |cidr: &Value| cidr.as_str().is_some_and(|cidr| cidr.ends_with("/0"));
                empty("namespaceSelector")
                    || empty("podSelector")
                    || whole(&peer["ipBlock"]["cidr"])
            };
            let named = list(&rule[peers]);
            if named.is_empty() || named.iter().any(open) || list(&rule["ports"]).is_empty() {
                told.push(format!("{direction}: {rule}"));
            }
        }
    }
    told
}

fn opens(rule: &Value, port: &str) -> bool {
    list(&rule["ports"]).iter().any(|it| it["port"] == port)
}

#[test]
fn a_rule_that_names_nobody_is_told() {
    for rule in [
        json!({"ingress": [{"ports": [{"port": 1}]}]}),
        json!({"ingress": [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 1}]}]}),
        json!({"egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 1}]}]}),
        json!({"egress": [{"to": [{"podSelector": {"matchLabels": {"a": "b"}}}]}]}),
    ] {
        assert_eq!(everybody(&rule).len(), 1, "{rule}");
    }
}

#[test]
fn every_role_may_reach_redis_and_redis_lets_every_role_in() {
    let Some(rendered) = Rendered::kustomized("base") else { return };
    let pods = pods(&rendered.objects);
    let component = |pod: &Pod<'_>| pod.labels["app.kubernetes.io/component"].clone();
    let out = &rendered.object("NetworkPolicy", "redis-access")["spec"];
    let inward = &rendered.object("NetworkPolicy", "redis")["spec"];
    let (to, from) = (&out["egress"][0], &inward["ingress"][0]);
    let redis = pods.iter().find(|pod| component(pod) == "redis").expect("a Redis");
    assert!(has(redis.labels, &to["to"][0]["podSelector"]["matchLabels"]));
    assert!(has(redis.labels, &inward["podSelector"]["matchLabels"]));
    for pod in pods.iter().filter(|pod| component(pod) != "redis") {
        for selector in [&out["podSelector"], &from["from"][0]["podSelector"]] {
            let wanted = &selector["matchExpressions"][0];
            assert_eq!(wanted["operator"], "In");
            assert!(list(&wanted["values"]).contains(&component(pod)), "{}", pod.owner);
        }
    }
    assert_eq!(to["ports"], from["ports"]);
}
