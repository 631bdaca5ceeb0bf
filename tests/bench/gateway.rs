//! The stand-in as a process of its own, as an inference server is, and the line on which it tells what came.
//!
//! A process of its own, and left alone between two calls: on a thread of the bench it would have been warmed by whatever
//! the bench did last. What is to be told is therefore asked for before the rest, never after it.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use holdfast_testkit::stand_in::{Counts, Keep, Options};
use holdfast_testkit::{Process, StandIn, eventually, free_port, http};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::times::monotonic;

/// How long it may take to start.
const SOON: Duration = Duration::from_secs(30);

/// How long anything may take to arrive.
const LIMIT: Duration = Duration::from_secs(120);

/// What has come so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// Calls that arrived.
    pub(crate) arrived: u64,
    /// Answers that were given.
    pub(crate) given: u64,
    /// When the last call arrived, or the one that was asked for, on the clock that all processes share.
    pub(crate) last: Duration,
    /// When its answer was handed over; zero before.
    pub(crate) answered: Duration,
}

/// Which call is told of, where it is not the last one.
const THE_LAST: u64 = 0;

/// A running stand-in that keeps the last arrivals.
pub(crate) struct Gateway {
    port: u16,
    line: Mutex<TcpStream>,
    process: Process,
}

impl Gateway {
    /// Keeps the last arrival alone.
    pub(crate) async fn start() -> Self {
        Self::keeping(1).await
    }

    /// Keeps the last so many arrivals.
    pub(crate) async fn keeping(most: usize) -> Self {
        let program = std::env::current_exe().expect("the bench knows its own file");
        let (port, line) = (free_port(), free_port());
        let args = ["gateway".to_owned(), port.to_string(), line.to_string(), most.to_string()];
        let process = Process::start(program, &args, &[]);
        let line = eventually("the gateway takes calls", SOON, async || {
            TcpStream::connect(here(line)).await.map_err(|err| err.to_string())
        })
        .await;
        line.set_nodelay(true).expect("a line without delay");
        Self { port, line: Mutex::new(line), process }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", here(self.port))
    }

    /// With `true`, calls that arrive from now on wait; with `false`, all that wait are answered.
    pub(crate) async fn hold(&self, hold: bool) {
        let (url, body) =
            (format!("{}/stand-in/hold", self.url()), format!(r#"{{"hold":{hold}}}"#));
        let answer = http::request("POST", &url, &[], body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// What has come by now.
    pub(crate) async fn now(&self) -> Told {
        self.until(0, 0).await
    }

    /// Waits until so many calls have arrived and so many were answered.
    pub(crate) async fn until(&self, arrived: u64, given: u64) -> Told {
        self.ask(arrived, given).await;
        self.told().await
    }

    /// Asks to be told once so many calls have arrived and so many were answered: by the next [`Gateway::told`].
    pub(crate) async fn ask(&self, arrived: u64, given: u64) {
        self.write([arrived, given, THE_LAST]).await;
    }

    /// What is known of the call with this number, once it was answered. It must be among those that are kept.
    pub(crate) async fn of(&self, number: u64) -> Told {
        self.write([number, 0, number]).await;
        self.told().await
    }

    async fn write(&self, asked: [u64; 3]) {
        let asked = asked.map(u64::to_be_bytes).concat();
        self.line.lock().await.write_all(&asked).await.expect("the gateway listens");
    }

    /// What was asked for, once it is so.
    pub(crate) async fn told(&self) -> Told {
        let mut line = self.line.lock().await;
        let mut number = async || line.read_u64().await.expect("the gateway is called in time");
        let (arrived, given) = (number().await, number().await);
        let [last, answered] = [number().await, number().await].map(Duration::from_nanos);
        Told { arrived, given, last, answered }
    }
}

/// The gateway's own process: it ends with its line.
pub(crate) async fn run(port: u16, line: u16, most: usize) -> ExitCode {
    let options = Options { keep: Keep::Last(most), ..Options::default() };
    let stand_in = StandIn::start_at(here(port), options).await.expect("a stand-in");
    // Just after its clock began: arrivals look a few microseconds later than they were.
    let began = monotonic();
    let listener = TcpListener::bind(here(line)).await.expect("a line");
    let (mut line, _) = listener.accept().await.expect("the bench connects");
    while let Some([arrived, given, number]) = asked(&mut line).await {
        let wanted = |it: &Counts| it.arrived >= arrived && it.given >= given;
        let counts = stand_in.wait_until(LIMIT, wanted).await.expect("the stand-in is called");
        let number = if number == THE_LAST { counts.arrived } else { number };
        let call = stand_in.arrival(number);
        let last = call.as_ref().map_or(Duration::ZERO, |call| began + call.since_start);
        let end = call.and_then(|call| call.end);
        let answered = end.map_or(Duration::ZERO, |end| began + end.since_start);
        let [last, answered] = [last, answered].map(nanos);
        let told = [counts.arrived, counts.given, last, answered].map(u64::to_be_bytes).concat();
        if line.write_all(&told).await.is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// The next question; none: nobody asks any more.
async fn asked(line: &mut TcpStream) -> Option<[u64; 3]> {
    let mut asked = [0; 3];
    for number in &mut asked {
        *number = line.read_u64().await.ok()?;
    }
    Some(asked)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a time in ns")
}

fn here(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
