//! Ways to a Redis that few tests take: TLS with a certificate of our own; Sentinel and Cluster with a user who lacks the
//! right to find the server.

use std::path::{Path, PathBuf};

use holdfast_testkit::{RedisServer, Sentinel, Value, eventually, free_port};

use crate::fleet::{Fleet, SOON, Setup};

/// Certificates of one authority, and their keys.
fn pem(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/worker/src/gateway/tests/pem"))
        .join(name)
}

/// A server that speaks TLS, and only with those whose certificate it trusts. The wheels can't, Debian's can.
async fn tls_server(port: u16) -> RedisServer {
    let files = [("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")];
    let files = files
        .map(|(option, name)| [format!("--tls-{option}-file"), pem(name).display().to_string()]);
    let port = ["--tls-port".to_owned(), port.to_string()];
    let more = ["--tls-auth-clients".to_owned(), "yes".to_owned()];
    RedisServer::of("redis-7.0", |it| {
        it.args.extend(files.into_iter().flatten().chain(port).chain(more))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_with_its_own_authority_and_a_client_certificate_the_main_job_is_done() {
    let port = free_port();
    let redis = tls_server(port).await;
    let line = |field: &str, name: &str| format!("{field} = \"{}\"\n", pem(name).display());
    let trusted = line("ca_file", "ca.pem");
    let own = line("client_cert_file", "client.pem") + &line("client_key_file", "client.key");
    let setup = Setup {
        redis_url: Some(format!("rediss://127.0.0.1:{port}")),
        redis: format!("{trusted}{own}"),
        ..Setup::default()
    };
    let fleet = Fleet::with(setup, redis).await;
    let (mut doomed, _reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.submit("first", "{\"content\":\"<first>\"}").await;
    assert_eq!(fleet.result("first").await.0, "answered");
    fleet.gateway.hold(true);
    fleet.submit("second", "{\"content\":\"<second>\"}").await;
    fleet.gateway.wait_for_arrivals(2, SOON).await.expect("under way");
    doomed.process.kill();
    fleet.gateway.hold(false);
    let _heir = fleet.worker();
    assert_eq!(fleet.result("second").await.0, "answered");
    // All of it went over TLS: nobody else has used the open port.
    let told = fleet.redis.command(&["CLIENT", "LIST"]).await;
    let open = told
        .text()
        .expect("a list")
        .lines()
        .filter(|line| line.contains(&format!("laddr=127.0.0.1:{port}")))
        .count();
    assert!(open >= 4, "{told:?}");
}

/// Without a certificate the server lets nobody in, which is told in so many words.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_certificate_a_role_is_not_ready_and_says_that_tls_failed() {
    let port = free_port();
    let redis = tls_server(port).await;
    let setup = Setup {
        redis_url: Some(format!("rediss://127.0.0.1:{port}")),
        redis: format!("ca_file = \"{}\"", pem("ca.pem").display()),
        ..Setup::default()
    };
    let fleet = Fleet::without_producer(setup, redis).await;
    let worker = fleet.worker();
    says(&fleet, worker.ops, "unreachable").await;
}

/// Finding the primary takes a right of its own: its name is told, not only that there is no connection.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_ask_a_server_of_sentinel_for_its_role_is_told_that_right() {
    let group = Sentinel::start(1).await;
    for which in [0, 1] {
        let words = ["ACL", "SETUSER", "worker", "on", ">pw", "~*", "&*", "+@all", "-role"];
        let told = group.server(which).command(&words).await;
        assert_eq!(told.text(), Some("OK"));
    }
    lacks(group.url().replacen("://", "://worker:pw@", 1), "role").await;
}

/// The same of a Cluster.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_ask_a_cluster_for_its_slots_is_told_that_right() {
    let bus = free_port().to_string();
    let node = RedisServer::with(|it| {
        it.args.extend(["--cluster-enabled", "yes", "--cluster-port", &bus].map(str::to_owned));
    });
    let node = node.await;
    node.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    eventually("the node serves", SOON, async || {
        let told = node.command(&["CLUSTER", "INFO"]).await;
        match told.text() {
            Some(text) if text.contains("cluster_state:ok") => Ok(()),
            _ => Err(format!("{told:?}")),
        }
    })
    .await;
    let words = ["ACL", "SETUSER", "worker", "on", ">pw", "~*", "&*", "+@all", "-cluster|slots"];
    let told = node.command(&words).await;
    assert!(matches!(told, Value::Simple(_)), "{told:?}");
    lacks(format!("redis-cluster://worker:pw@127.0.0.1:{}", node.port()), "cluster|slots").await;
}

/// A worker names the right that lacks, in its readiness and its log.
async fn lacks(url: String, right: &str) {
    let setup = Setup { redis_url: Some(url), ..Setup::default() };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let worker = fleet.worker();
    says(&fleet, worker.ops, &format!("denied: {right}")).await;
}

async fn says(fleet: &Fleet, ops: u16, word: &str) {
    let url = format!("http://127.0.0.1:{ops}/readyz");
    eventually("its readiness says why", SOON, async || {
        let answer = fleet.http.try_request("GET", &url, &[], "").await?;
        match answer.status {
            503 if answer.text().contains(word) => Ok(()),
            _ => Err(answer.text().to_owned()),
        }
    })
    .await;
}
