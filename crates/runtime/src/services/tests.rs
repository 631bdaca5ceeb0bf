//! How a process ends: asked, by itself, and in a hurry.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::{Environment, Settings};

/// Long enough for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(10);

type Nothing = Result<(), Infallible>;

async fn until(stop: CancellationToken) -> Nothing {
    stop.cancelled().await;
    Ok(())
}

async fn run(services: Services, stop: &Stop) -> Result<(), Failure> {
    timeout(PATIENCE, services.run(stop)).await.expect("the services end")
}

fn asked() -> Stop {
    let stop = Stop::default();
    stop.drain.cancel();
    stop
}

#[tokio::test]
async fn services_that_are_asked_to_stop_end_without_a_failure() {
    let mut services = Services::new();
    services.spawn("one", until);
    services.spawn("two", until);
    let health = services.health().clone();
    assert!(run(services, &asked()).await.is_ok());
    assert!(health.is_draining());
}

#[tokio::test]
async fn a_task_that_ends_by_itself_ends_the_process_with_its_name_and_stops_the_others() {
    let mut services = Services::new();
    services.spawn("short", |_| async { Nothing::Ok(()) });
    services.spawn("other", until);
    let failure = run(services, &Stop::default()).await.unwrap_err();
    assert_eq!(failure.to_string(), "short ended by itself");
}

#[tokio::test]
async fn a_task_that_fails_is_named_with_its_cause() {
    let mut services = Services::new();
    services.spawn("broken", |_| async { Err(io::Error::other("no luck")) });
    services.spawn("other", until);
    let failure = run(services, &Stop::default()).await.unwrap_err();
    assert_eq!(Chain(&failure).to_string(), "broken failed: no luck");
}

#[tokio::test]
async fn a_task_that_panics_is_named_and_what_it_said_is_not_told() {
    let mut services = Services::new();
    services.spawn("wild", |stop| async move {
        assert!(stop.is_cancelled(), "my secret prompt");
        Nothing::Ok(())
    });
    let failure = run(services, &Stop::default()).await.unwrap_err();
    assert_eq!(Chain(&failure).to_string(), "wild panicked");
}

#[tokio::test]
async fn what_fails_while_draining_is_a_failure() {
    let mut services = Services::new();
    services.spawn("worker", |stop| async move {
        stop.cancelled().await;
        Err(io::Error::other("not handed back"))
    });
    let failure = run(services, &asked()).await.unwrap_err();
    assert_eq!(failure.to_string(), "worker failed");
}

#[tokio::test]
async fn a_task_that_does_not_end_in_time_is_named_and_cut() {
    let mut services = Services::new();
    services.grant(LAST_BREATH + Duration::from_millis(50));
    services.spawn("stuck", |_| std::future::pending::<Nothing>());
    services.spawn("good", until);
    let failure = run(services, &asked()).await.unwrap_err();
    assert_eq!(failure.to_string(), "not ended within the grace period: stuck");
}

#[tokio::test]
async fn a_second_request_to_stop_does_not_wait() {
    let mut services = Services::new();
    services.spawn("stuck", |_| std::future::pending::<Nothing>());
    let stop = asked();
    stop.now.cancel();
    assert!(matches!(run(services, &stop).await, Err(Failure::AtOnce)));
}

#[tokio::test]
async fn the_ops_port_answers_until_the_last_task_has_ended() {
    let mut services = Services::new();
    let address =
        services.open_ops("worker.ops_listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
    services.spawn("slow", move |stop| async move {
        stop.cancelled().await;
        let told = crate::ops::tests::ask(address, "GET /readyz").await;
        assert!(told.starts_with("HTTP/1.1 503"), "{told}");
        assert!(told.contains(r#""reasons":{"process":"draining"}"#), "{told}");
        Nothing::Ok(())
    });
    run(services, &asked()).await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_with_its_address() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let err = Services::new().open_ops("worker.ops_listen", address).await.unwrap_err();
    let told = Chain(&*err).to_string();
    assert!(
        told.starts_with(&format!("can't listen on {address} (worker.ops_listen): ")),
        "{told}"
    );
}

/// A task that begins and ends a span only when it is told to stop.
fn traced_late(services: &mut Services, collector: SocketAddr) {
    let text = format!("[traces]\nendpoint = \"http://{collector}\"");
    let settings = Settings::load(&text, &Environment::default()).unwrap();
    let traces = services.open_traces(&settings.traces, "late", None);
    services.spawn("late", |stop| async move {
        stop.cancelled().await;
        traces.submit(None).expect("traces are on").end();
        Nothing::Ok(())
    });
}

#[tokio::test]
async fn a_span_of_a_task_that_drains_still_comes_to_the_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut services = Services::new();
    traced_late(&mut services, listener.local_addr().unwrap());
    let collector = async {
        let (mut connection, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let mut begin = [0; 16];
        connection.read_exact(&mut begin).await.unwrap();
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        begin
    };
    let stop = asked();
    let (ended, begin) = tokio::join!(run(services, &stop), collector);
    assert!(ended.is_ok());
    assert_eq!(&begin, b"POST /v1/traces ");
}

#[tokio::test]
async fn a_collector_that_hangs_is_no_failure_of_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut services = Services::new();
    services.grant(LAST_BREATH + Duration::from_millis(100));
    traced_late(&mut services, listener.local_addr().unwrap());
    assert!(run(services, &asked()).await.is_ok());
}
