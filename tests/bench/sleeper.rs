//! A process that sleeps until Redis wakes it, and says when it was woken: what a worker of a few lines would be.
//!
//! A process of its own, as a worker is: a sleeper on the bench's own thread is woken while that thread is warm from
//! ringing, in a third to half of the time.

use std::process::ExitCode;
use std::time::Duration;

use holdfast_testkit::{Client, Process, Value};

use crate::times::monotonic;

/// Where the sleeper waits, and where it answers. The bench's own.
const BELL: &str = "bench-bell";
const WOKEN: &str = "bench-woken";

/// How long one BLPOP lasts, in seconds: below what the client allows an answer.
const LIMIT: &str = "10";

/// A running sleeper.
pub(crate) struct Sleeper {
    ringer: Client,
    answers: Client,
    _process: Process,
}

impl Sleeper {
    /// Starts one on the server at that port, and wakes it once.
    pub(crate) async fn start(port: u16) -> Self {
        let program = std::env::current_exe().expect("the bench knows its own file");
        let process = Process::start(program, &["sleeper", &port.to_string()], &[]);
        let (ringer, answers) = (Client::new(port), Client::new(port));
        let sleeper = Self { ringer, answers, _process: process };
        sleeper.wake().await;
        sleeper
    }

    /// From before RPUSH until the sleeper's BLPOP was answered.
    pub(crate) async fn wake(&self) -> Duration {
        let began = monotonic();
        assert_eq!(self.ringer.command(&["RPUSH", BELL, "1"]).await.int(), Some(1));
        let woken = popped(&self.answers, WOKEN).await.expect("the sleeper answers");
        woken.parse().map(Duration::from_nanos).expect("a time in ns") - began
    }
}

/// The sleeper's own process: it ends when it is killed.
pub(crate) async fn run(port: u16) -> ExitCode {
    let client = Client::new(port);
    loop {
        if popped(&client, BELL).await.is_some() {
            let woken = monotonic().as_nanos().to_string();
            client.command(&["RPUSH", WOKEN, &woken]).await;
        }
    }
}

/// Takes from a list; none: nothing came in time.
pub(crate) async fn popped(client: &Client, list: &str) -> Option<String> {
    let answer = client.command(&["BLPOP", list, LIMIT]).await;
    answer.array().and_then(|pair| pair.get(1)).and_then(Value::text).map(str::to_owned)
}
