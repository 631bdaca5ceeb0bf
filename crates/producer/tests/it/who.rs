//! Keys, tenants and scopes.

use std::fs;
use std::path::PathBuf;

use holdfast_runtime::keys::Key;
use holdfast_testkit::http::Answer;
use holdfast_testkit::{RedisServer, eventually};
use tempfile::TempDir;

use crate::support::{Hand, Producer, SOON, json, problem, unix_now};

const REQUESTS: &str = "/v1/queues/q/requests";

/// A file of keys, and a producer that reads it.
struct Keyed {
    producer: Producer,
    _folder: TempDir,
    file: PathBuf,
}

impl Keyed {
    async fn start(redis: &RedisServer, lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        fs::write(&file, lines).unwrap();
        let setting = format!("keys_file = \"{}\"", file.display());
        let producer = Producer::start(redis, &setting, "").await;
        Self { producer, _folder: folder, file }
    }

    async fn call(&self, key: &Key, method: &str, path: &str, body: &str) -> Answer {
        let authorization = format!("Bearer {}", key.expose());
        let headers =
            [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let url = format!("{}{path}", self.producer.base);
        self.producer.http.request(method, &url, &headers, body.to_owned()).await
    }

    async fn submit(&self, key: &Key, id: &str, payload: &str) -> Answer {
        let body = format!(r#"{{"id":"{id}","timeout":"1h","payload":{payload}}}"#);
        self.call(key, "POST", REQUESTS, &body).await
    }

    /// Waits until a key is answered with this status.
    async fn until(&self, key: &Key, status: u16) {
        eventually("the file is read again", SOON, async || {
            match self.call(key, "GET", "/v1/queues", "").await.status {
                told if told == status => Ok(()),
                told => Err(told),
            }
        })
        .await;
    }
}

fn line(tenant: &str, scopes: &str, key: &Key) -> String {
    format!("tenant={tenant} scopes={scopes} sha256={}\n", key.hash())
}

/// An answer without what is drawn anew for each.
fn told(answer: &Answer) -> (u16, Vec<(String, String)>, String) {
    let name = |name: &str| !matches!(name, "x-request-id" | "date");
    let headers = answer.headers.iter().filter(|(it, _)| name(it.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), format!("{value:?}")));
    (answer.status, headers.collect(), answer.text().to_owned())
}

#[tokio::test]
async fn without_a_known_key_nobody_is_let_in() {
    let redis = RedisServer::start().await;
    let (key, unknown) = (Key::random(), Key::random());
    let keyed = Keyed::start(&redis, &line("acme", "submit,read,cancel", &key)).await;
    let producer = &keyed.producer;
    let body = r#"{"id":"a","payload":1}"#;
    for (method, path) in [
        ("POST", "/v1/queues/q/requests"),
        ("GET", "/v1/queues/q/requests/a"),
        ("GET", "/v1/queues/q/requests/a/result"),
        ("DELETE", "/v1/queues/q/requests/a"),
        ("GET", "/v1/queues"),
        ("GET", "/v1/queues/q"),
        ("GET", "/v1/queues/unknown"),
        ("GET", "/v1/queues/NO%20NAME/requests/x"),
    ] {
        let url = format!("{}{path}", producer.base);
        let json = [("content-type", "application/json")];
        let bare = producer.http.request(method, &url, &json, body).await;
        assert_eq!((bare.status, problem(&bare).as_str()), (401, "unauthorized"), "{path}");
        assert_eq!(bare.header("www-authenticate"), Some(r#"Bearer realm="holdfast""#));
        let wrong = keyed.call(&unknown, method, path, body).await;
        assert_eq!((wrong.status, problem(&wrong).as_str()), (401, "unauthorized"), "{path}");
        let challenge = wrong.header("www-authenticate").unwrap();
        assert!(challenge.ends_with(r#"error="invalid_token""#), "{challenge}");
        assert!(!wrong.text().contains(unknown.expose()));
    }
    assert_eq!(redis.command(&["HLEN", "hf1:{q/0}:ticket"]).await.int(), Some(0));
    assert_eq!(keyed.submit(&key, "a", "1").await.status, 202);
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say_and_a_403_names_the_one_that_is_missing() {
    let redis = RedisServer::start().await;
    let [submit, read, cancel, operate] = [(); 4].map(|()| Key::random());
    let lines = [
        line("acme", "submit", &submit),
        line("acme", "read", &read),
        line("acme", "cancel", &cancel),
        line("acme", "operate", &operate),
    ];
    let keyed = Keyed::start(&redis, &lines.concat()).await;
    let body = r#"{"id":"a","timeout":"1h","payload":1}"#;
    for (method, path, scope, allowed, status) in [
        ("POST", REQUESTS, "submit", &submit, 202),
        ("GET", "/v1/queues/q/requests/a", "read", &read, 200),
        ("GET", "/v1/queues/q/requests/a/result", "read", &read, 202),
        ("GET", "/v1/queues", "read", &read, 200),
        ("DELETE", "/v1/queues/q/requests/a", "cancel", &cancel, 200),
    ] {
        for key in [&submit, &read, &cancel, &operate] {
            if std::ptr::eq(key, allowed) {
                continue;
            }
            let answer = keyed.call(key, method, path, body).await;
            assert_eq!((answer.status, problem(&answer).as_str()), (403, "forbidden"), "{path}");
            assert_eq!(json(&answer)["scope"], scope);
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.ends_with(&format!("scope=\"{scope}\"")), "{challenge}");
        }
        assert_eq!(keyed.call(allowed, method, path, body).await.status, status, "{method} {path}");
    }
}

#[tokio::test]
async fn who_may_not_read_is_not_told_a_result_by_way_of_a_submit() {
    let redis = RedisServer::start().await;
    let (submit, both) = (Key::random(), Key::random());
    let lines = line("acme", "submit", &submit) + &line("acme", "submit,read", &both);
    let keyed = Keyed::start(&redis, &lines).await;
    let hand = Hand::on(&redis);
    assert_eq!(keyed.submit(&submit, "a", "1").await.status, 202);
    hand.answer(200, b"ANSWER-MARK").await;
    let body = r#"{"id":"a","timeout":"1h","payload":1}"#;
    let ask = async |key: &Key| {
        let authorization = format!("Bearer {}", key.expose());
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("prefer", "wait=5"),
        ];
        let url = format!("{}{REQUESTS}", keyed.producer.base);
        keyed.producer.http.request("POST", &url, &headers, body).await
    };
    let told = ask(&submit).await;
    assert_eq!((told.status, told.header("preference-applied")), (200, None));
    assert_eq!(json(&told)["state"], "finished");
    assert_eq!(ask(&both).await.text(), "ANSWER-MARK");
}

#[tokio::test]
async fn another_tenants_request_is_a_missing_one_on_every_route() {
    let redis = RedisServer::start().await;
    let (ours, theirs) = (Key::random(), Key::random());
    let all = "submit,read,cancel";
    let keyed =
        Keyed::start(&redis, &(line("ours", all, &ours) + &line("theirs", all, &theirs))).await;
    let hand = Hand::on(&redis);
    assert_eq!(keyed.submit(&theirs, "ended", "1").await.status, 202);
    hand.answer(200, b"THEIRS").await;
    let accepted = keyed.submit(&theirs, "waits", "2").await;
    let generation = json(&accepted)["generation"].as_str().unwrap().to_owned();

    for id in ["waits", "ended"] {
        for (method, suffix) in [
            ("GET", String::new()),
            ("GET", format!("?generation={generation}")),
            ("GET", "/result".to_owned()),
            ("GET", "/result?wait=1".to_owned()),
            ("GET", format!("/result?generation={generation}")),
            ("DELETE", String::new()),
            ("DELETE", format!("?generation={generation}")),
        ] {
            let ask = async |id: &str| {
                keyed.call(&ours, method, &format!("{REQUESTS}/{id}{suffix}"), "").await
            };
            let (another, missing) = (ask(id).await, ask("never").await);
            assert_eq!((another.status, problem(&another).as_str()), (404, "unknown-request"));
            assert_eq!(told(&another), told(&missing), "{method} {id}{suffix}");
        }
    }
    // Neither cancelled nor in the way: the id is free for others.
    let waits = keyed.call(&theirs, "GET", &format!("{REQUESTS}/waits"), "").await;
    assert_eq!(json(&waits)["state"], "pending");
    let mine = keyed.submit(&ours, "waits", "3").await;
    assert_eq!((mine.status, mine.header("idempotent-replayed")), (202, None));
    let theirs = keyed.submit(&theirs, "waits", "2").await;
    assert_eq!(
        (theirs.status, json(&theirs)["generation"].as_str().unwrap()),
        (200, generation.as_str())
    );
}

/// A caller is who the key says, whatever else the call says.
#[tokio::test]
async fn nobody_is_another_tenant_by_saying_so() {
    let redis = RedisServer::start().await;
    let (ours, theirs) = (Key::random(), Key::random());
    let all = "submit,read,cancel";
    let keyed =
        Keyed::start(&redis, &(line("ours", all, &ours) + &line("theirs", all, &theirs))).await;
    assert_eq!(keyed.submit(&theirs, "a", "1").await.status, 202);
    let base = &keyed.producer.base;
    let bearer = format!("Bearer {}", ours.expose());
    let other = format!("Bearer {}", theirs.expose());
    for (name, value) in [
        ("x-tenant", "theirs"),
        ("holdfast-tenant", "theirs"),
        ("x-forwarded-user", "theirs"),
        ("x-original-authorization", &other),
        ("proxy-authorization", &other),
        ("x-api-key", theirs.expose()),
        ("cookie", &format!("authorization={}", theirs.expose())),
        ("host", "theirs"),
    ] {
        let headers = [("authorization", bearer.as_str()), (name, value)];
        let url = format!("{base}{REQUESTS}/a");
        let told = keyed.producer.http.request("GET", &url, &headers, "").await;
        assert_eq!((told.status, problem(&told).as_str()), (404, "unknown-request"), "{name}");
        let alone = keyed.producer.http.request("GET", &url, &[(name, value)], "").await;
        assert_eq!(alone.status, 401, "{name} is no key");
    }
    for path in [
        format!("{REQUESTS}/a?tenant=theirs"),
        format!("{REQUESTS}/a?authorization={}", theirs.expose()),
        format!("{REQUESTS}?tenant=theirs"),
        format!("{REQUESTS}/a/result?key={}", theirs.expose()),
    ] {
        let told = keyed.call(&ours, "GET", &path, "").await;
        assert_eq!((told.status, problem(&told).as_str()), (400, "invalid-query"), "{path}");
        assert!(!told.text().contains(theirs.expose()));
    }
    let item = r#"{"id":"b","tenant":"theirs","timeout":"1h","payload":1}"#;
    let told = keyed.call(&ours, "POST", REQUESTS, item).await;
    assert_eq!((told.status, problem(&told).as_str()), (400, "invalid-item"));
    // Two keys are none, in whichever order.
    for pair in [[&bearer, &other], [&other, &bearer], [&bearer, &bearer]] {
        let headers = pair.map(|value| ("authorization", value.as_str()));
        let url = format!("{base}{REQUESTS}/a");
        assert_eq!(keyed.producer.http.request("GET", &url, &headers, "").await.status, 401);
    }
}

/// The same `Idempotency-Key` is another name in each tenant, and the same one in one, whichever of its keys speaks.
#[tokio::test]
async fn a_replayed_idempotency_key_is_its_tenants_own() {
    let redis = RedisServer::start().await;
    let [ours, second, theirs] = [(); 3].map(|()| Key::random());
    let lines = [("ours", &ours), ("ours", &second), ("theirs", &theirs)];
    let lines = lines.map(|(tenant, key)| line(tenant, "submit,read", key)).concat();
    let keyed = Keyed::start(&redis, &lines).await;
    let submit = async |key: &Key, body: &str| {
        let bearer = format!("Bearer {}", key.expose());
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "replayed"),
        ];
        let url = format!("{}{REQUESTS}", keyed.producer.base);
        let told = keyed.producer.http.request("POST", &url, &headers, body.to_owned()).await;
        let replayed = told.header("idempotent-replayed").is_some();
        (told.status, replayed, json(&told)["generation"].clone())
    };
    let (one, two) = (r#"{"timeout":"1h","payload":1}"#, r#"{"timeout":"1h","payload":2}"#);
    let first = submit(&ours, one).await;
    assert_eq!((first.0, first.1), (202, false));
    for _ in 0..3 {
        assert_eq!(submit(&second, one).await, (200, true, first.2.clone()));
    }
    assert_eq!(submit(&second, two).await.0, 422, "other bytes under it");
    let others = submit(&theirs, two).await;
    assert_eq!((others.0, others.1), (202, false), "another tenant's is its own");
    assert_ne!(others.2, first.2);
    assert_eq!(submit(&ours, one).await, (200, true, first.2));
}

#[tokio::test]
async fn keys_are_rotated_without_a_restart() {
    let redis = RedisServer::start().await;
    let (old, new) = (Key::random(), Key::random());
    let keyed = Keyed::start(&redis, &line("acme", "submit,read", &old)).await;
    assert_eq!(keyed.submit(&old, "a", "1").await.status, 202);
    keyed.until(&new, 401).await;

    let both = line("acme", "submit,read", &old) + &line("acme", "submit,read", &new);
    fs::write(&keyed.file, &both).unwrap();
    keyed.until(&new, 200).await;
    keyed.until(&old, 200).await;
    let found = keyed.call(&new, "GET", &format!("{REQUESTS}/a"), "").await;
    assert_eq!(found.status, 200, "both are the tenant's");

    let newest = Key::random();
    fs::write(&keyed.file, line("acme", "read", &newest)).unwrap();
    keyed.until(&newest, 200).await;
    keyed.until(&old, 401).await;
    keyed.until(&new, 401).await;
}

#[tokio::test]
async fn a_key_that_has_expired_is_refused() {
    let redis = RedisServer::start().await;
    let (over, good) = (Key::random(), Key::random());
    let now = unix_now();
    let lines = format!(
        "tenant=acme scopes=read expires={} sha256={}\ntenant=acme scopes=read expires={} sha256={}\n",
        now - 5,
        over.hash(),
        now + 3_600,
        good.hash()
    );
    let keyed = Keyed::start(&redis, &lines).await;
    assert_eq!(keyed.call(&good, "GET", "/v1/queues", "").await.status, 200);
    let refused = keyed.call(&over, "GET", "/v1/queues", "").await;
    assert_eq!((refused.status, problem(&refused).as_str()), (401, "unauthorized"));
    assert!(refused.text().contains("expired"));
}
