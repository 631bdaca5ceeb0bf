//! K71: clients that dribble, or say nothing.
//!
//! Without a limit on the time of a head, a few dozen of them hold every place, and nobody else gets in.

use std::time::{Duration, Instant};

use holdfast_testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::aftermath;
use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{alone, beside_others, full, spelled, time};
use crate::stage::{self, Api};

const PARTIAL_HEAD: &str = "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\n\
    Content-Type: application/json\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const SLOW_BODY: &str = "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\n\
    Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n\
    {\"id\":\"k71-slow\",\"timeout\":\"10m\",\"payload\":{\"model\":\"demo-model\",\"x\":\"";

/// How a client is slow.
#[derive(Clone, Copy, Debug)]
enum Slow {
    /// It connects, and that is all.
    Silent,
    /// It sends a part of a head, and holds on.
    Head,
    /// It sends its head a byte at a time, for ever.
    Dribbled,
    /// It sends its body a byte at a time.
    Body,
}

/// How long a connection may go without getting on, and a body may take: the default, at full length.
fn limit() -> Duration {
    time(30.0)
}

/// A slow client, until its connection is closed: how it was slow, how long that took, and what it was told.
async fn slow(port: u16, how: Slow) -> (Slow, Duration, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    let since = Instant::now();
    let (whole, rest) = match how {
        Slow::Silent => ("", ""),
        Slow::Head => (PARTIAL_HEAD, ""),
        Slow::Dribbled => ("GET /v1/queues HTTP/1.1\r\nHost: x\r\nX-Slow: ", "a"),
        Slow::Body => {
            let at = SLOW_BODY.find("{\"id\"").expect("its body");
            SLOW_BODY.split_at(at)
        }
    };
    let (mut reading, mut writing) = stream.split();
    let send = async {
        writing.write_all(whole.as_bytes()).await.ok();
        let mut bytes = rest.bytes().chain(std::iter::repeat(b'a'));
        let every = time(1.0);
        while !rest.is_empty() {
            tokio::time::sleep(every).await;
            let byte = bytes.next().expect("there is no end");
            if writing.write_all(&[byte]).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await
    };
    let mut told = Vec::new();
    tokio::select! {
        () = send => {}
        // A reset ends it as well.
        _ = timeout(limit() * 3, reading.read_to_end(&mut told)) => {}
    }
    (how, since.elapsed(), String::from_utf8(told).expect("text"))
}

/// The connections that a process has open.
fn sockets_of(pid: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    let target =
        |file: std::io::Result<std::fs::DirEntry>| std::fs::read_link(file.ok()?.path()).ok();
    open.filter_map(target).filter(|it| it.to_string_lossy().starts_with("socket:")).count()
}

/// A submit a second until `all` are gone: how long each took.
async fn submits_meanwhile(
    fleet: &Fleet,
    api: &Api,
    clients: &mut JoinSet<(Slow, Duration, String)>,
) -> (Vec<Duration>, Vec<(Slow, Duration, String)>) {
    let (mut took, mut gone) = (Vec::new(), Vec::new());
    let mut beat = tokio::time::interval(time(1.0));
    loop {
        tokio::select! {
            client = clients.join_next() => match client {
                Some(client) => gone.push(client.expect("a client of this case")),
                None => return (took, gone),
            },
            _ = beat.tick() => {
                let item = format!("{{\"id\":\"k71-{}\",\"timeout\":\"10m\",\"payload\":{{}}}}", took.len());
                let asked = Instant::now();
                let answer = api.call(fleet, "POST", "/v1/queues/q/requests", &item).await;
                assert_eq!(answer.expect("an answer").status, 202);
                took.push(asked.elapsed());
            }
        }
    }
}

/// Hundreds of them: each is closed in time, and whoever is not slow does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_closed_in_time_and_hold_nobody_up() {
    let _alone = alone().await;
    let defaults = if full() {
        String::new()
    } else {
        format!("idle_timeout = \"{0}\"\nbody_timeout = \"{0}\"", spelled(limit()))
    };
    let fleet = stage::fleet(Setup { producer: defaults, ..Setup::default() }).await;
    let api = Api::start(&fleet).await;
    let before = sockets_of(api.role.process.pid());
    let mut clients = JoinSet::new();
    for (how, many) in
        [(Slow::Silent, 200), (Slow::Head, 200), (Slow::Dribbled, 20), (Slow::Body, 50)]
    {
        for _ in 0..many {
            clients.spawn(slow(api.port, how));
        }
    }
    let (took, gone) = submits_meanwhile(&fleet, &api, &mut clients).await;
    assert_eq!(gone.len(), 470);
    for (how, held, told) in gone {
        assert!(held < limit() * 2 + Duration::from_secs(5), "{how:?} was held for {held:?}");
        assert!(!told.contains(" 202 "), "{how:?}: {told}");
        if matches!(how, Slow::Body) {
            assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
        }
    }
    assert!(took.len() > 20, "{} submits: nothing was measured", took.len());
    let slowest = took.iter().max().expect("a submit");
    // One of them may meet a pause of the machine.
    let late = took.iter().filter(|took| **took >= Duration::from_millis(100)).count();
    assert!(
        late <= took.len() / 20,
        "{late} of {} took 100 ms and more, one {slowest:?}",
        took.len()
    );
    eventually("their connections are closed", SOON, async || {
        match sockets_of(api.role.process.pid()) {
            open if open <= before + 4 => Ok(()),
            open => Err(format!("{open} are open, {before} were before")),
        }
    })
    .await;
    assert_eq!(fleet.result_now("k71-slow").await.status, 404, "nothing of a cut body is kept");
    aftermath::nobody_panicked(&fleet, &[&api.role]);
}

/// Even where there are as few places as clients that hold them, the places come back.
#[tokio::test(flavor = "multi_thread")]
async fn who_holds_every_place_loses_it_in_time() {
    let _shared = beside_others().await;
    let few = "max_connections = 20\nidle_timeout = \"2s\"\nbody_timeout = \"2s\"".to_owned();
    let fleet = stage::fleet(Setup { producer: few, ..Setup::default() }).await;
    let api = Api::start(&fleet).await;
    let before = sockets_of(api.role.process.pid());
    let mut clients = JoinSet::new();
    for _ in 0..40 {
        clients.spawn(slow(api.port, Slow::Dribbled));
    }
    eventually("every place is held", Duration::from_secs(5), async || {
        match sockets_of(api.role.process.pid()) {
            open if open >= before + 20 => Ok(()),
            open => Err(format!("{open} are open")),
        }
    })
    .await;
    let asked = Instant::now();
    let answer = api.call(&fleet, "GET", "/v1/queues", "").await.expect("an answer");
    assert_eq!(answer.status, 200);
    assert!(asked.elapsed() < Duration::from_secs(15), "it waited for {:?}", asked.elapsed());
    while clients.join_next().await.is_some() {}
    aftermath::nobody_panicked(&fleet, &[&api.role]);
}
