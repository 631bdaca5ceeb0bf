//! Manifests are what Kubernetes takes, and name only what is there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::rendered::{Pod, Rendered, list, pods, root};

/// What is rendered by kustomize.
pub(crate) const KUSTOMIZED: [&str; 2] = ["base", "overlays/external-redis"];

/// Files that are applied as they stand.
pub(crate) const EXAMPLES: [&str; 4] =
    ["examples/hpa.yaml", "examples/keda.yaml", "examples/operator.yaml", "examples/traces.yaml"];

#[test]
fn every_manifest_is_what_its_schema_says_and_no_field_is_made_up() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        assert_eq!(rendered.faults, [""; 0], "{folder}");
        assert_eq!(rendered.unknown, [""; 0], "{folder}");
    }
    for file in EXAMPLES {
        let Some(read) = Rendered::file(file) else { return };
        assert_eq!(read.faults, [""; 0], "{file}");
        // KEDA's own kinds are in no schema of Kubernetes.
        let known = ["ScaledObject"];
        assert!(read.unknown.iter().all(|kind| known.contains(&kind.as_str())), "{file}");
    }
    let Some(secrets) = Rendered::secrets() else { return };
    assert_eq!((secrets.faults, secrets.unknown), (vec![], vec![]));
}

#[test]
fn a_field_that_does_not_exist_is_told() {
    let wrong = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {port: 80}\n";
    let Some(read) = Rendered::read(wrong) else { return };
    assert_eq!(read.faults.len(), 1, "{:?}", read.faults);
    assert!(read.faults[0].contains("'port' was unexpected"), "{:?}", read.faults);
}

/// A Secret that people make, as docs/deployment.md tells them.
const BY_HAND: &str = "holdfast-keys";

#[test]
fn what_a_pod_mounts_is_there_or_drawn_by_the_script() {
    let Some(secrets) = Rendered::secrets() else { return };
    let mut drawn = names(&secrets.objects, "Secret");
    let told = std::fs::read_to_string(root().join("docs/deployment.md")).unwrap();
    assert!(told.contains(&format!("kubectl create secret generic {BY_HAND} ")));
    drawn.insert(BY_HAND.to_owned());
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        assert_eq!(rendered.of_kind("Secret").count(), 0, "{folder}: a secret stands in the tree");
        let maps = names(&rendered.objects, "ConfigMap");
        for pod in pods(&rendered.objects) {
            let missing = missing(&pod, &maps, &drawn);
            assert!(missing.is_empty(), "{folder}: {}: {missing:?}", pod.owner);
        }
    }
    let Some(operator) = Rendered::file("examples/operator.yaml") else { return };
    let maps = names(&operator.objects, "ConfigMap");
    for pod in pods(&operator.objects) {
        assert_eq!(missing(&pod, &maps, &drawn), [""; 0], "{}", pod.owner);
    }
    let lost = json!({"volumes": [{"name": "v", "secret": {"secretName": "lost"}}]});
    let pod = Pod { owner: String::new(), labels: &Value::Null, spec: &lost };
    assert_eq!(missing(&pod, &maps, &drawn).len(), 1);
}

#[test]
fn what_selects_pods_finds_its_own() {
    for folder in KUSTOMIZED {
        let Some(rendered) = Rendered::kustomized(folder) else { return };
        for (owner, told) in rendered.objects.iter().filter_map(|object| strays(&rendered, object))
        {
            assert_eq!(told, "", "{folder}: {owner}");
        }
    }
}

/// What is wrong with what an object selects, if it selects pods.
fn strays(rendered: &Rendered, object: &Value) -> Option<(String, String)> {
    let kind = object["kind"].as_str()?;
    let at = match kind {
        "Deployment" | "StatefulSet" | "PodDisruptionBudget" => "/spec/selector/matchLabels",
        "Service" => "/spec/selector",
        _ => return None,
    };
    let name = object["metadata"]["name"].as_str()?;
    let wanted = object.pointer(at).cloned().unwrap_or_default();
    let found: Vec<_> =
        pods(&rendered.objects).into_iter().filter(|pod| has(pod.labels, &wanted)).collect();
    let told = match (kind, found.as_slice()) {
        (_, []) => "it selects no pod".to_owned(),
        // What makes pods must not adopt another's.
        ("Deployment" | "StatefulSet" | "PodDisruptionBudget", [one]) => {
            let own = one.owner.rsplit(' ').next() == Some(name);
            if own { String::new() } else { format!("it selects the pods of {}", one.owner) }
        }
        ("Service", _) => ports_that_lack(object, &found),
        (_, more) => format!("it selects {} kinds of pods", more.len()),
    };
    Some((format!("{kind} {name}"), told))
}

/// The ports of a Service that no pod behind it opens.
fn ports_that_lack(service: &Value, behind: &[Pod<'_>]) -> String {
    let open: BTreeSet<&str> = behind
        .iter()
        .flat_map(|pod| list(&pod.spec["containers"]))
        .flat_map(|container| list(&container["ports"]))
        .filter_map(|port| port["name"].as_str())
        .collect();
    let targets = list(&service["spec"]["ports"]).iter().map(|port| &port["targetPort"]);
    let lacks = targets.filter(|port| port.as_str().is_none_or(|port| !open.contains(port)));
    lacks.map(|port| format!("no pod opens {port}")).collect()
}

/// Whether labels hold all that is wanted.
pub(crate) fn has(labels: &Value, wanted: &Value) -> bool {
    let wanted = wanted.as_object();
    wanted.is_some_and(|wanted| wanted.iter().all(|(name, value)| labels[name] == *value))
}

fn names(objects: &[Value], kind: &str) -> BTreeSet<String> {
    let named = objects.iter().filter(|object| object["kind"] == kind);
    named.filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// ConfigMaps and Secrets that a pod cannot start without and that nobody makes, and mounts without a volume.
fn missing(pod: &Pod<'_>, maps: &BTreeSet<String>, secrets: &BTreeSet<String>) -> Vec<String> {
    let mut told = Vec::new();
    let volumes = list(&pod.spec["volumes"]);
    for volume in volumes {
        let map = volume["configMap"]["name"].as_str();
        let secret = volume["secret"]["secretName"].as_str();
        let optional = volume["secret"]["optional"] == true;
        let lost = map.is_some_and(|name| !maps.contains(name))
            || secret.is_some_and(|name| !optional && !secrets.contains(name));
        if lost {
            told.push(volume.to_string());
        }
    }
    let containers = list(&pod.spec["containers"]).iter();
    for mount in containers.flat_map(|container| list(&container["volumeMounts"])) {
        // A StatefulSet's claims are volumes as well; the one of Redis is called data.
        let claimed = pod.owner.starts_with("StatefulSet") && mount["name"] == "data";
        if !claimed && !volumes.iter().any(|volume| volume["name"] == mount["name"]) {
            told.push(mount.to_string());
        }
    }
    told
}
