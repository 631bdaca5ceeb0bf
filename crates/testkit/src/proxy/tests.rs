use std::time::Duration;

use holdfast_local_redis::resp;

use super::*;
use crate::{Client, RedisServer, eventually};

const LIMIT: Duration = Duration::from_secs(10);

/// A server, a proxy before it, and a client that only knows the proxy.
async fn line() -> (RedisServer, Proxy, Client) {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let client = Client::new(proxy.port());
    (redis, proxy, client)
}

/// Sends several requests at once, and gives the connection.
async fn pipeline(port: u16, requests: &[&[&str]]) -> Connection {
    let mut connection = Connection::open(port).await.unwrap();
    let wire: Vec<u8> = requests.iter().flat_map(|words| resp::encode(words)).collect();
    connection.send(&wire).await.unwrap();
    connection
}

/// The next answers, as many as are asked for.
async fn answers(connection: &mut Connection, count: usize) -> Vec<Value> {
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(connection.answer().await.unwrap());
    }
    answers
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

#[tokio::test]
async fn without_faults_everything_passes_and_is_counted() {
    let (_redis, proxy, client) = line().await;
    let gets = proxy.count(command("get"));
    let body = vec![b'\n'; 3_000_000];
    assert_eq!(client.command(&[b"SET".as_slice(), b"key", &body]).await, ok());
    assert_eq!(client.command(&["GET", "key"]).await, Value::Bytes(body));
    assert_eq!(client.command(&["GET", "none"]).await, Value::Nil);
    assert_eq!((gets.matched(), gets.fired()), (2, 0));
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_lost_reply_is_of_a_request_that_ran_once() {
    let (redis, proxy, client) = line().await;
    let lost = proxy.inject(Fault::LoseReply, When::Nth(2), contains("count"));
    assert_eq!(client.command(&["INCR", "count"]).await, Value::Int(1));
    let err = client.try_command(&["INCR", "count"]).await.unwrap_err();
    assert_eq!(err.kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(redis.command(&["GET", "count"]).await, Value::from("2"));
    assert_eq!(
        client.command(&["INCR", "count"]).await,
        Value::Int(3),
        "a new connection is served"
    );
    assert_eq!((lost.matched(), lost.fired()), (3, 1));
}

#[tokio::test]
async fn of_pipelined_requests_the_matching_one_loses_its_reply_and_those_before_it_do_not() {
    let (redis, proxy, _client) = line().await;
    let lost = proxy.inject(Fault::LoseReply, When::Each, contains("b"));
    let mut connection =
        pipeline(proxy.port(), &[&["INCR", "a"], &["INCR", "b"], &["INCR", "c"]]).await;
    assert_eq!(answers(&mut connection, 1).await, [Value::Int(1)]);
    assert!(connection.answer().await.is_err(), "the connection is cut");
    lost.wait_fired(1, LIMIT).await;
    for key in ["a", "b"] {
        assert_eq!(redis.command(&["GET", key]).await, Value::from("1"), "{key} ran");
    }
}

#[tokio::test]
async fn a_held_request_arrives_after_its_repeat_was_answered() {
    let (redis, proxy, client) = line().await;
    proxy.inject(Fault::HoldRequest, When::Nth(1), contains("first copy"));
    let words = ["RPUSH", "list", "first copy"];
    assert!(client.try_command(&words).await.is_err());
    assert_eq!((proxy.held(), redis.command(&["LLEN", "list"]).await), (1, Value::Int(0)));

    assert_eq!(client.command(&words).await, Value::Int(1), "its repeat passes");
    assert_eq!(proxy.release_held().await, [Value::Int(2)]);
    assert_eq!((proxy.held(), redis.command(&["LLEN", "list"]).await), (0, Value::Int(2)));
}

#[tokio::test]
async fn a_refused_request_does_not_run_and_answers_keep_their_order() {
    let (redis, proxy, _client) = line().await;
    proxy.inject(Fault::Refuse("ERR half-way".into()), When::Each, command("DEL"));
    let requests: [&[&str]; 3] = [&["SET", "key", "1"], &["DEL", "key"], &["GET", "key"]];
    let mut connection = pipeline(proxy.port(), &requests).await;
    assert_eq!(
        answers(&mut connection, 3).await,
        [ok(), Value::Error("ERR half-way".into()), Value::from("1")]
    );
    assert_eq!(redis.command(&["EXISTS", "key"]).await, Value::Int(1));
}

#[tokio::test]
async fn a_delayed_reply_is_of_a_request_that_ran_at_once() {
    let (redis, proxy, client) = line().await;
    let delay = Duration::from_millis(400);
    proxy.inject(Fault::DelayReply(delay), When::First(1), command("INCR"));
    let began = tokio::time::Instant::now();
    let asked = client.command(&["INCR", "count"]);
    let ran = eventually("the request has run", delay, async || {
        match redis.command(&["GET", "count"]).await {
            Value::Nil => Err("not yet"),
            _ => Ok(began.elapsed()),
        }
    });
    let (answer, ran) = tokio::join!(asked, ran);
    assert_eq!(answer, Value::Int(1));
    assert!(
        ran < delay && began.elapsed() >= delay,
        "ran after {ran:?}, answered after {:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_delayed_request_runs_late() {
    let (redis, proxy, client) = line().await;
    let delay = Duration::from_millis(200);
    let late = proxy.inject(Fault::DelayRequest(delay), When::Nth(1), command("INCR"));
    let began = tokio::time::Instant::now();
    let early = async {
        late.wait_fired(1, LIMIT).await;
        redis.command(&["GET", "count"]).await
    };
    let (answer, early) = tokio::join!(client.command(&["INCR", "count"]), early);
    assert_eq!((answer, early), (Value::Int(1), Value::Nil));
    assert!(began.elapsed() >= delay);
}

#[tokio::test]
async fn a_swallowed_request_is_never_answered_and_never_runs() {
    let (redis, proxy, client) = line().await;
    let swallowed = proxy.inject(Fault::Swallow, When::Nth(1), command("INCR"));
    let asked = client.try_command(&["INCR", "count"]);
    tokio::select! {
        answer = asked => panic!("answered: {answer:?}"),
        () = swallowed.wait_fired(1, LIMIT) => {}
    }
    assert_eq!(redis.command(&["GET", "count"]).await, Value::Nil);
    assert_eq!(client.command(&["INCR", "count"]).await, Value::Int(1));
}

#[tokio::test]
async fn a_black_hole_keeps_what_is_sent_until_it_ends() {
    let (redis, proxy, client) = line().await;
    assert_eq!(client.command(&["INCR", "count"]).await, Value::Int(1));
    proxy.black_hole();
    let asked = client.command(&["INCR", "count"]);
    tokio::pin!(asked);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut asked).await.is_err(),
        "something passed"
    );
    assert_eq!(
        (redis.command(&["GET", "count"]).await, proxy.connections()),
        (Value::from("1"), 1)
    );
    proxy.restore();
    assert_eq!(asked.await, Value::Int(2));
}

#[tokio::test]
async fn connections_are_cut_and_refused_while_the_line_is_down() {
    let (_redis, proxy, client) = line().await;
    assert_eq!(client.command(&["PING"]).await, Value::Simple("PONG".into()));
    proxy.cut_all();
    eventually("the cut", LIMIT, async || match proxy.connections() {
        0 => Ok(()),
        open => Err(format!("{open} connections stand")),
    })
    .await;
    assert_eq!(
        client.command(&["PING"]).await,
        Value::Simple("PONG".into()),
        "new ones are served"
    );

    proxy.go_down();
    eventually("the line is down", LIMIT, async || match client.try_command(&["PING"]).await {
        Err(_) => Ok(()),
        Ok(answer) => Err(format!("{answer:?}")),
    })
    .await;
    proxy.restore();
    assert_eq!(client.command(&["PING"]).await, Value::Simple("PONG".into()));
}

#[tokio::test]
async fn messages_to_a_subscriber_are_no_answers() {
    let (redis, proxy, _client) = line().await;
    let lost = proxy.inject(Fault::LoseReply, When::Each, command("PING"));
    let mut connection = pipeline(proxy.port(), &[&["SUBSCRIBE", "one", "two"]]).await;
    answers(&mut connection, 2).await;
    assert_eq!(redis.command(&["PUBLISH", "two", "hello"]).await, Value::Int(1));
    let message = Value::Array(vec!["message".into(), "two".into(), "hello".into()]);
    assert_eq!(connection.answer().await.unwrap(), message);

    connection.send(&resp::encode(&["PING"])).await.unwrap();
    assert!(connection.answer().await.is_err(), "its answer was lost");
    assert_eq!(lost.fired(), 1);
}

#[tokio::test]
async fn a_script_is_matched_by_its_sha() {
    let (redis, proxy, client) = line().await;
    let Value::Bytes(sha) = redis.command(&["SCRIPT", "LOAD", "return 1"]).await else {
        panic!("no sha")
    };
    let sha = String::from_utf8(sha).unwrap();
    proxy.inject(Fault::Refuse("OOM command not allowed".into()), When::Nth(1), evalsha(&sha));
    let refused = client.command(&["evalsha", &sha, "0"]).await;
    assert_eq!(refused, Value::Error("OOM command not allowed".into()));
    assert_eq!(client.command(&["EVALSHA", &sha, "0"]).await, Value::Int(1));
    proxy.inject(Fault::Refuse("ERR".into()), When::Each, anything());
    assert_eq!(client.command(&["PING"]).await, Value::Error("ERR".into()));
    proxy.clear();
    assert_eq!(client.command(&["PING"]).await, Value::Simple("PONG".into()));
}
