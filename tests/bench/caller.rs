//! Who calls, a process of its own: many connections that are kept, one request on each at a time, always the same bytes.
//!
//! It makes nothing and reads of an answer only what it has to: the same client for every side of a comparison, and cheaper than
//! whatever it calls.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use holdfast_testkit::Process;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::cpu;
use crate::stage::SUBMIT_PATH;

/// How long a body is, about: what a chat of some turns takes.
const BODY: usize = 1024;

/// What is called, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Load {
    /// Where it listens
    pub(crate) port: u16,
    /// Whether it is a producer, which is asked to wait for the answer; else a gateway
    #[arg(long)]
    pub(crate) producer: bool,
    /// How many calls are out at once
    #[arg(long)]
    pub(crate) in_flight: u32,
    /// How long it calls before it counts, in ms
    #[arg(long)]
    pub(crate) warm_up: u64,
    /// How long it counts, in ms
    #[arg(long)]
    pub(crate) time: u64,
    /// How many calls a second; none: each as soon as the one before has its answer
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Processes whose processor time is to be told
    #[arg(long)]
    pub(crate) pids: Vec<u32>,
}

/// What became of the calls.
///
/// All of it while they were counted: what connections and a cold start cost is no part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Called {
    /// Answers a second.
    pub(crate) rate: f64,
    /// What one call cost this client, in µs of processor time.
    pub(crate) cpu: f64,
    /// The same of each process that was named.
    pub(crate) others: Vec<f64>,
}

impl Load {
    /// Calls, and waits for the end.
    pub(crate) async fn run(&self) -> Called {
        let program = std::env::current_exe().expect("the bench knows its own file");
        let done = Process::run(program, &self.args(), &[]).await;
        assert!(done.status.success(), "{}", done.stderr);
        serde_json::from_str(&done.stdout).expect("what the caller tells")
    }

    /// Begins to call; it goes on until its time is over or this is dropped.
    pub(crate) fn start(&self) -> Process {
        let program = std::env::current_exe().expect("the bench knows its own file");
        Process::start(program, &self.args(), &[])
    }

    fn args(&self) -> Vec<String> {
        let number = |name: &str, value: u64| vec![format!("--{name}"), value.to_string()];
        let mut args = vec!["caller".to_owned(), self.port.to_string()];
        args.extend(self.producer.then(|| "--producer".to_owned()));
        args.extend(number("in-flight", self.in_flight.into()));
        args.extend(number("warm-up", self.warm_up));
        args.extend(number("time", self.time));
        args.extend(self.rate.into_iter().flat_map(|it| ["--rate".to_owned(), it.to_string()]));
        args.extend(self.pids.iter().flat_map(|pid| number("pids", (*pid).into())));
        args
    }

    /// A whole request. Without an id, the producer makes one: so the bytes are always the same.
    fn request(&self) -> String {
        let text = "Why is the sky blue? ".repeat(BODY.div_ceil(21));
        let payload = format!(
            r#"{{"model":"stand-in","max_tokens":64,"messages":[{{"role":"user","content":"{}"}}]}}"#,
            &text[..BODY - 80]
        );
        let (path, head, body) = if self.producer {
            let body = format!(r#"{{"timeout":"1h","payload":{payload}}}"#);
            (SUBMIT_PATH, "prefer: wait=60\r\n", body)
        } else {
            ("/v1/chat/completions", "", payload)
        };
        format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{head}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// When what one connection does counts, and when it calls.
#[derive(Clone, Copy)]
struct Plan {
    begin: Instant,
    end: Instant,
    /// The first call, and the time from one to the next; none: no pauses.
    pace: Option<(Instant, Duration)>,
    /// What must stand in the head of an answer.
    proof: &'static [u8],
}

/// The caller's own process.
pub(crate) async fn run(load: &Load) -> ExitCode {
    let request: Arc<[u8]> = load.request().into_bytes().into();
    let mut streams = Vec::new();
    for _ in 0..load.in_flight {
        let stream = TcpStream::connect(("127.0.0.1", load.port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a connection without delay");
        streams.push(stream);
    }
    let (now, millis) = (Instant::now(), Duration::from_millis);
    let begin = now + millis(load.warm_up);
    let end = begin + millis(load.time);
    let every = load.rate.map(|rate| Duration::from_secs_f64(f64::from(load.in_flight) / rate));
    let proof: &[u8] = if load.producer { b"\nholdfast-outcome: answered\r" } else { b"" };
    let mut callers = JoinSet::new();
    for (nth, stream) in streams.into_iter().enumerate() {
        let first = |every: Duration| now + every.mul_f64(nth as f64 / f64::from(load.in_flight));
        let pace = every.map(|every| (first(every), every));
        let plan = Plan { begin, end, pace, proof };
        callers.spawn(Box::pin(call(stream, Arc::clone(&request), plan)));
    }
    let spent = || -> Vec<Duration> {
        let own = std::process::id();
        [own].iter().chain(&load.pids).map(|pid| cpu::of(*pid)).collect()
    };
    sleep_until(begin).await;
    let before = spent();
    sleep_until(end).await;
    let after = spent();
    let answers = callers.join_all().await.iter().sum::<u64>() as f64;
    let each = before.iter().zip(&after);
    let mut each = each.map(|(before, after)| (*after - *before).as_secs_f64() * 1e6 / answers);
    let called = Called {
        rate: answers / millis(load.time).as_secs_f64(),
        cpu: each.next().expect("its own time stands first"),
        others: each.collect(),
    };
    println!("{}", serde_json::to_string(&called).expect("figures are JSON"));
    ExitCode::SUCCESS
}

/// Calls on one connection: how many answers came that count.
async fn call(mut stream: TcpStream, request: Arc<[u8]>, plan: Plan) -> u64 {
    let mut counted = 0;
    let mut answer = Vec::with_capacity(4096);
    let mut next = plan.pace.map(|(first, _)| first);
    while Instant::now() < plan.end {
        if let (Some(at), Some((_, every))) = (&mut next, plan.pace) {
            sleep_until(*at).await;
            *at += every;
        }
        stream.write_all(&request).await.expect("the server reads");
        answer.clear();
        while !is_whole(&answer) {
            let read = stream.read_buf(&mut answer).await.expect("the server answers");
            assert!(read > 0, "cut: {}", String::from_utf8_lossy(&answer));
        }
        let is_proven = plan.proof.is_empty() || find(&answer, plan.proof).is_some();
        let is_good = answer.starts_with(b"HTTP/1.1 200 ") && is_proven;
        assert!(is_good, "{}", String::from_utf8_lossy(&answer));
        counted += u64::from((plan.begin..plan.end).contains(&Instant::now()));
    }
    counted
}

/// Whether there is a head and as much of a body as it says.
pub(crate) fn is_whole(answer: &[u8]) -> bool {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let Some(end) = find(answer, b"\r\n\r\n") else { return false };
    let head = &answer[..end];
    let at = find(head, LENGTH).expect("every answer says how long it is") + LENGTH.len();
    let digits = head[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    answer.len() >= end + 4 + length
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    let (first, rest) = part.split_first()?;
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|byte| byte == first)?;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}
