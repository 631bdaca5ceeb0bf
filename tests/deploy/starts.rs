//! Each role starts as its Deployment says: words, variables, mounts, ports and probes.

use std::time::Instant;

use holdfast_runtime::settings::GRACE;

use crate::rendered::{list, pods};
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn each_role_starts_as_its_deployment_says_and_answers_its_probes() {
    let Some(stage) = Stage::set(|port| format!("http://127.0.0.1:{port}"), "").await else {
        return;
    };
    let mut roles = ["producer", "worker", "reclaimer"].map(|role| (role, stage.start(role, &[])));
    for (role, running) in &roles {
        stage.probed(role, running).await;
    }
    let api = &roles[0].1;
    let nobody = format!("http://127.0.0.1:{}/v1/queues/default/requests/hello", api.ports["api"]);
    assert_eq!(stage.http.request("GET", &nobody, &[], "").await.status, 401);
    stage.submit(api, "default", "hello", "1m").await;
    assert_eq!(stage.outcome(api, "default", "hello").await, "answered");
    for (role, running) in &mut roles {
        let asked = Instant::now();
        let status = running.process.terminate().await;
        assert!(status.success(), "{role}: {status}: {}", running.process.output());
        assert!(asked.elapsed() < GRACE, "{role}: {:?}", asked.elapsed());
    }
}

/// The kubelet asks Redis as a user who may do nothing else; nobody gets in without a name.
#[tokio::test]
async fn the_probe_of_redis_may_ping_and_nothing_else() {
    let Some(stage) = Stage::set(|port| format!("http://127.0.0.1:{port}"), "").await else {
        return;
    };
    let pods = pods(&stage.base.objects);
    let redis = pods.iter().find(|pod| pod.owner == "StatefulSet holdfast-redis").unwrap();
    let probe = &redis.spec["containers"][0]["readinessProbe"]["exec"]["command"];
    let words: Vec<&str> = list(probe).iter().filter_map(|word| word.as_str()).collect();
    let after = |name: &str| words[words.iter().position(|word| *word == name).unwrap() + 1];
    let (client, told) = stage.log_in(after("--user"), after("--pass")).await;
    assert_eq!(told.text(), Some("OK"), "{told:?}");
    assert_eq!(client.command(&[words.last().unwrap()]).await.text(), Some("PONG"));
    assert!(refusal(&client, &["GET", "key"]).await.starts_with("NOPERM"));

    let nobody = holdfast_testkit::Client::new(stage.redis.port());
    assert!(refusal(&nobody, &["PING"]).await.starts_with("NOAUTH"));
    let (_, told) = stage.log_in("worker", "wrong").await;
    assert!(format!("{told:?}").contains("WRONGPASS"), "{told:?}");
}

/// What the server says to a command that it must refuse.
pub(crate) async fn refusal(client: &holdfast_testkit::Client, words: &[&str]) -> String {
    match client.command(words).await {
        holdfast_testkit::Value::Error(told) => told,
        other => panic!("{words:?} is answered: {other:?}"),
    }
}
