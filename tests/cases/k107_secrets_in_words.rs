//! K107: secrets in what is printed.
//!
//! An address with its password at the start or in an error, a key in a trace: whoever reads the log has them.

use holdfast_testkit::{Process, RedisServer, free_port};

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::beside_others;

const CTL: &str = env!("CARGO_BIN_EXE_it-holdfastctl");

/// Whatever goes wrong with an address and its password, the host is told and the password is not.
#[tokio::test(flavor = "multi_thread")]
async fn no_fault_of_an_address_tells_its_password() {
    let _shared = beside_others().await;
    let redis = RedisServer::start().await;
    redis.command(&["ACL", "SETUSER", "ad", "on", ">S3CRET1", "~*", "&*", "+@all"]).await;
    let port = redis.port();
    let (right, wrong) = (
        format!("redis://ad:S3CRET1@127.0.0.1:{port}"),
        format!("redis://ad:S3CRET9@127.0.0.1:{port}"),
    );
    let away = format!("redis://ad:S3CRET1@127.0.0.1:{}", free_port());
    let more = "[log]\nfilter = \"trace\"".to_owned();
    let credential = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(credential.path(), "S3CRET2\n").expect("a credential");
    let queue = format!("credential_file = \"{}\"", credential.path().display());
    let mut said = String::new();
    let fleet = |url: &str, redis| {
        let redis_url = Some(url.to_owned());
        let (more, queue) = (more.clone(), queue.clone());
        Fleet::without_producer(Setup { redis_url, more, queue, ..Setup::default() }, redis)
    };
    let running = fleet(&right, redis).await;
    running.start_producer().await;
    let (mut worker, mut reclaimer) = (running.worker(), running.reclaimer());
    running.ready(worker.ops).await;
    running.ready(reclaimer.ops).await;
    running.submit("k107", "{\"content\":\"S3CRET-PROMPT\"}").await;
    assert_eq!(running.result("k107").await.0, "answered");
    assert_eq!(running.gateway.arrivals()[0].headers["authorization"], "Bearer S3CRET2");

    let settings = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(settings.path(), running.settings("worker", 1)).expect("settings");
    let path = settings.path().to_str().expect("text");
    for arguments in [
        &["check", "--config", path][..],
        &["queue", "ls", "--config", path],
        &["doctor", "--config", path],
        &["doctor", "--redis", &right],
        &["why", "k107", "--queue", "q", "--redis", &right],
        &["lease", "ls", "--redis", &wrong],
        &["dead", "redrive", "--all", "--queue", "q", "--yes", "--redis", &wrong],
        &["worker", "ls", "--redis", &away],
        &["queue", "ls", "--redis", "redis://ad:S3CRET1@127.0.0.1:port"],
        &["queue", "ls", "--operator", "http://ad:S3CRET3@127.0.0.1:1"],
        &["queue", "pause", &right],
        &["why", "x", "--key-file", path, "--operator", "http://127.0.0.1:1"],
    ] {
        let ran = Process::run(CTL, arguments, &[]).await;
        said.push_str(&ran.stdout);
        said.push_str(&ran.stderr);
    }
    // A role that is refused by its password, and one whose Redis is away.
    for (url, server) in [(&wrong, running.redis.url()), (&away, running.redis.url())] {
        assert!(!server.is_empty());
        let refused = fleet(url, RedisServer::start().await).await;
        let mut role = refused.worker();
        role.process.wait_for_line(|line| line.contains("redis"), SOON).await;
        for path in ["metrics", "readyz"] {
            let url = format!("http://127.0.0.1:{}/{path}", role.ops);
            if let Ok(answer) = refused.http.try_request("GET", &url, &[], "").await {
                said.push_str(answer.text());
            }
        }
        role.process.kill();
        said.push_str(&role.process.output());
    }
    for role in [&mut worker, &mut reclaimer] {
        assert!(role.process.terminate().await.success());
        said.push_str(&role.process.output());
    }
    said.push_str(&running.producers_output());
    let hit = said.lines().find(|line| line.contains("S3CRET"));
    assert_eq!(hit, None, "a secret is told");
    assert!(said.contains(&format!("127.0.0.1:{port}")), "host and port stay");
}
