//! The examples of autoscaling count what the workers have to do, and what they are doing.

use crate::rendered::{Rendered, root};

/// Whether a query counts waiting and leased requests once each, however many reclaimers tell of them.
fn counts_the_work(query: &str) -> bool {
    query.contains("sum(max by (queue, state) (holdfast_queue_requests{")
        && query.contains(r#"state=~"pending|leased""#)
}

#[test]
fn workers_are_scaled_by_pending_and_leased_requests() {
    let Some(base) = Rendered::kustomized("base") else { return };
    let settings: toml::Table = base.settings().parse().unwrap();
    let slots = settings["worker"]["concurrency"].as_integer().unwrap();
    for file in ["hpa.yaml", "keda.yaml"] {
        let path = format!("examples/{file}");
        let text = std::fs::read_to_string(root().join("deploy").join(&path)).unwrap();
        assert!(text.lines().any(counts_the_work), "{file}");
        let Some(read) = Rendered::file(&path) else { return };
        let spec = &read.objects[0]["spec"];
        let target = &spec["scaleTargetRef"]["name"];
        base.object("Deployment", target.as_str().unwrap());
        let average = match file {
            "hpa.yaml" => &spec["metrics"][0]["external"]["target"]["averageValue"],
            _ => &spec["triggers"][0]["metadata"]["threshold"],
        };
        // At the aim each worker still has free slots, so that more work is seen as more.
        let average: i64 = average.as_str().unwrap().parse().unwrap();
        assert!(average > 0 && average < slots, "{file}: {average} of {slots}");
    }
}

#[test]
fn a_query_that_counts_only_what_waits_is_told() {
    let good = r#"sum(max by (queue, state) (holdfast_queue_requests{state=~"pending|leased"}))"#;
    assert!(counts_the_work(good));
    assert!(!counts_the_work(&good.replace("|leased", "")));
    assert!(!counts_the_work(&good.replace("sum(max by (queue, state) (", "sum((")));
}

#[test]
fn the_metric_and_its_states_exist() {
    let metrics = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    assert!(metrics.contains("| `holdfast_queue_requests` | gauge | queue, state |"));
    // The names of homes are those of the keys.
    let keys = holdfast_core::keys::ShardKeys::new(&"q".try_into().unwrap(), 0);
    assert!(keys.pending.ends_with(":pending") && keys.leased.ends_with(":leased"));
}
