use super::*;
use crate::{AppendFsync, eventually};

#[tokio::test]
async fn a_server_answers_and_outlives_a_kill_with_its_data() {
    let redis = RedisServer::with(|options| options.appendfsync = AppendFsync::Always).await;
    assert_eq!(redis.command(&["SET", "key", "value"]).await, Value::Simple("OK".into()));
    let pid = redis.pid();
    redis.kill().await;
    assert!(redis.try_command(&["PING"]).await.is_err());
    redis.restart().await;
    assert_eq!(redis.command(&["GET", "key"]).await, Value::from("value"));
    assert_ne!(redis.pid(), pid);
}

#[tokio::test]
async fn a_paused_server_answers_only_when_it_is_resumed() {
    let redis = RedisServer::start().await;
    redis.pause();
    let asked = redis.command(&["PING"]);
    tokio::pin!(asked);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut asked).await;
    assert!(early.is_err(), "a frozen server answered");
    redis.resume();
    assert_eq!(asked.await, Value::Simple("PONG".into()));
}

#[tokio::test]
async fn commands_are_counted_and_errors_are_values() {
    let redis =
        RedisServer::with(|options| options.args.extend(["--maxmemory".into(), "90mb".into()]))
            .await;
    for _ in 0..3 {
        redis.command(&["LLEN", "list"]).await;
    }
    assert_eq!(redis.command_counts().await.get("llen"), Some(&3));
    assert!(
        matches!(redis.command(&["NOSUCH"]).await, Value::Error(text) if text.starts_with("ERR unknown command"))
    );
    let maxmemory = redis.command(&["CONFIG", "GET", "maxmemory"]).await;
    assert_eq!(maxmemory, Value::Array(vec!["maxmemory".into(), "94371840".into()]));
}

#[tokio::test]
async fn a_connection_that_was_killed_is_made_anew() {
    let redis = RedisServer::start().await;
    let id = redis.command(&["CLIENT", "ID"]).await;
    let other = Client::new(redis.port());
    other.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    eventually("a new connection", Duration::from_secs(5), async || {
        match redis.try_command(&["CLIENT", "ID"]).await {
            Ok(now) if now != id => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_comes_back_on_its_port_while_clients_redial() {
    let redis = RedisServer::start().await;
    let port = redis.port();
    let redial = async {
        loop {
            drop(tokio::net::TcpStream::connect(("127.0.0.1", port)).await);
            tokio::task::yield_now().await;
        }
    };
    let restarts = async {
        for _ in 0..10 {
            redis.kill().await;
            redis.restart().await;
            assert_eq!(redis.command(&["PING"]).await, Value::Simple("PONG".into()));
        }
    };
    tokio::select! {
        () = redial => {}
        () = restarts => {}
    }
    assert!(redis.dir().join("server.log").is_file());
}
