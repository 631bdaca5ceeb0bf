//! A process that stops in the midst of a batch.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::{CONTENT_TYPE, HOST};
use holdfast_core::script;
use holdfast_runtime::serve;
use holdfast_runtime::settings::HttpLimits;
use holdfast_runtime::{Environment, Services, Settings};
use holdfast_testkit::proxy::{Fault, When, evalsha};
use holdfast_testkit::{Proxy, RedisServer, Value, eventually};
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::api::router;
use crate::producer::{Around, Assembled, assemble};
use crate::stage::{Stage, staged};

const SOON: Duration = Duration::from_secs(20);

/// A client that takes the lines in their order, as it may, took the outcome of one item for that of the next: a soak found it,
/// with a request that was told as kept and never was.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_ends_with_its_process_tells_nothing_behind_its_last_line() {
    let redis = RedisServer::start().await;
    let text = format!(
        "[redis]\nurl = \"{}\"\n[queues.q]\ntarget = \"http://127.0.0.1:9901\"\nshards = 1\n",
        redis.url()
    );
    let settings = Settings::load(&text, &Environment::default()).unwrap();
    let config = crate::Config::read(&settings).unwrap();
    let mut services = Services::new();
    let client = services.open_redis(&config.redis).unwrap();
    let around = Around { stop: services.stop(), ..Around::default() };
    let Assembled { app, loops: _loops } = assemble(client, &config, around).unwrap();

    let places = u32::try_from(app.batched.available_permits()).unwrap();
    let places = app.batched.clone().acquire_many_owned(places).await.unwrap();
    let (memory, item) = (app.memory.available_permits(), "{\"payload\":1}\n");
    let batch = Request::post("/v1/queues/q/batch")
        .header(HOST, "x")
        .header(CONTENT_TYPE, "application/x-ndjson")
        .body(Body::from(item.repeat(3)))
        .unwrap();
    let mut answered = JoinSet::new();
    answered.spawn(router(app.clone()).oneshot(batch));
    eventually("an item waits for its place", SOON, async || {
        let left = app.memory.available_permits();
        // The item itself, once its text is held and no longer looked for.
        if left + item.trim().len() == memory { Ok(()) } else { Err(left) }
    })
    .await;
    app.stop.cancel();
    drop(places);

    let answer = answered.join_next().await.unwrap().unwrap().unwrap();
    let lines = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let lines = String::from_utf8(lines.to_vec()).unwrap();
    let lines: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|line| (&line["index"], &line["unread"])).collect();
    assert_eq!(told, [(&Json::from(0), &Json::from(true))], "{lines:?}");
    let kept = redis.command(&["HLEN", "hf1:{q/0}:ticket"]).await;
    assert_eq!(kept, Value::Int(0), "what the last line says holds");
}

/// What we take for ourselves is none of the time that a body may take.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_body_stands_while_it_is_we_who_do_not_read() {
    let (_redis, stage) = staged().await;
    stage.submit("first").await;
    let app = &stage.app;
    let listener = serve::bind("here", ([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let limits = HttpLimits {
        max_connections: 4,
        max_headers: 64,
        max_head: 1 << 14,
        idle_timeout: SOON,
        body_timeout: Duration::from_secs(1),
    };
    let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
    serving.spawn(serve::http(listener, router(app.clone()), limits, SOON, stop));

    let places = u32::try_from(app.batched.available_permits()).unwrap();
    let places = app.batched.clone().acquire_many_owned(places).await.unwrap();
    let memory = app.memory.available_permits();
    let (one, two) =
        ("{\"payload\":1}\n", format!("{{\"payload\":\"{}\"}}\n", "x".repeat(1 << 20)));
    let head = format!(
        "POST /v1/queues/q/batch HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n{one}",
        one.len() + two.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    serving.spawn(async move {
        // As fast as it is taken.
        writer.write_all(two.as_bytes()).await?;
        std::future::pending().await
    });
    eventually("an item waits for its place", SOON, async || {
        let left = app.memory.available_permits();
        if left < memory { Ok(()) } else { Err(left) }
    })
    .await;
    // Twice as long as a body may take.
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(places);
    let mut answer = String::new();
    tokio::time::timeout(SOON, reader.read_to_string(&mut answer)).await.unwrap().unwrap();
    let lines = answer.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let told: Vec<Json> = lines.filter_map(|line| line.get("status").cloned()).collect();
    assert_eq!(told, [202, 202], "{answer}");
}

/// Four such callers kept all places there are, and every other batch of the process waited for them.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_nothing_keeps_no_place_that_the_items_of_others_need() {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let stage = Stage::on(&proxy.url(), "").await;
    stage.submit("first").await;
    let read = script::all().into_iter().find(|it| it.name == "read").unwrap();
    // Looks take a while, as they do where Redis has other work.
    let slow = Fault::DelayReply(Duration::from_millis(100));
    let looks = proxy.inject(slow, When::Each, evalsha(&read.sha1));
    let places = stage.app.batched.available_permits();
    // Each is looked up before it may be sent, and there are more of them than are on their way at once.
    let batch = Request::post("/v1/queues/q/batch")
        .header(HOST, "x")
        .header(CONTENT_TYPE, "application/x-ndjson")
        .body(Body::from("{\"not_before\":1,\"payload\":1}\n".repeat(10_000)))
        .unwrap();
    let unread = router(stage.app.clone()).oneshot(batch).await.unwrap();
    assert_eq!(unread.status(), 207);
    assert!(looks.fired() > 0, "nothing was looked up");
    eventually("all places are free", SOON, async || {
        let free = stage.app.batched.available_permits();
        if free == places { Ok(()) } else { Err(format!("{free} of {places}")) }
    })
    .await;
    drop(unread);
}
