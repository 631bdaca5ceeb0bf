//! Other queues, each a program of its own in `tests/bench/peers` that adds or processes jobs and tells how long it took.
//!
//! It is got on first use, into the folder of what cargo builds. Where that can't be, its rows say why.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use holdfast_testkit::RedisServer;
use serde::Deserialize;
use tokio::process::Command;

use super::cycle::{ANSWER, BATCH, Cost, Costs, cost, ratios};
use super::floor::{Floor, Floors};
use super::holdfast::Holdfast;
use crate::report::{Row, median};
use crate::server::{self, Spent};

/// The bodies, in bytes.
const SIZE: usize = 1 << 10;

/// Calls at once that submit, beside one after another.
const AT_ONCE: usize = 8;

/// No phase and no build takes so long.
const LONGEST: Duration = Duration::from_secs(600);

/// A queue that is measured beside ours.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// Jobs that are added and then processed in each round, in batches of 64.
    pub(super) batches: usize,
    pub(super) rounds: usize,
    /// Whether something is to be reached beside it, so that floors are measured too.
    pub(super) has_targets: bool,
    /// How it adds and processes, and what becomes of an answer.
    pub(super) how: &'static str,
}

/// All that was measured.
struct Measured {
    ours: Phases,
    theirs: Phases,
    /// Two, or none.
    floors: Vec<Phases>,
    version: String,
}

/// How the program of a peer is started.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// What stands before the words of a phase.
    pub(super) first: Vec<PathBuf>,
}

/// What it tells.
#[derive(Debug, Deserialize)]
struct Told {
    seconds: f64,
    version: String,
}

/// What is compared.
pub(super) struct Compared {
    pub(super) process: Row,
    pub(super) add: Row,
    pub(super) add_at_once: Row,
    pub(super) cpu: Row,
}

/// What one job took.
#[derive(Clone, Copy, Debug)]
struct Job {
    add: Cost,
    process: Cost,
}

/// The costs of a job on one side.
#[derive(Debug, Default)]
struct Phases {
    add: Costs,
    add_at_once: Costs,
    process: Costs,
}

impl Peer {
    /// Measures both sides by turns, each on a server of its own.
    pub(super) async fn compared(&self, program: Result<Program, String>) -> Compared {
        let name = self.name;
        let process = format!("claim, body read, ack and sweep / {name}'s process: rate");
        let add = format!("submit, one call after another / {name}'s add: rate");
        let add_at_once = format!("submit, 8 calls at once / {name}'s add: rate");
        let cpu = format!("a whole job of 1 KB, added and processed / {name}: server CPU");
        let measured = match program {
            Ok(program) => self.measured(&program).await,
            Err(why) => Err(why),
        };
        let measured = match measured {
            Ok(measured) => measured,
            Err(why) => {
                return Compared {
                    process: Row::not_measured(process, &why),
                    add: Row::not_measured(add, &why),
                    add_at_once: Row::not_measured(add_at_once, &why),
                    cpu: Row::not_measured(cpu, &why),
                };
            }
        };
        let Measured { ours, theirs, floors, version } = measured;
        let rate = |what, ours: &Costs, theirs: &Costs| {
            row(what, &ratios(&theirs.time, &ours.time), [&ours.time, &theirs.time])
        };
        let spent = [ours.cpu(), theirs.cpu()];
        let cpu = row(cpu, &ratios(&spent[0], &spent[1]), [&spent[0], &spent[1]]);
        let cpu = cpu.more(&format!("; {name} {version}: {}", self.how));
        let mut compared = Compared {
            process: rate(process, &ours.process, &theirs.process),
            add: rate(add, &ours.add, &theirs.add),
            add_at_once: rate(add_at_once, &ours.add_at_once, &theirs.add_at_once),
            cpu,
        };
        if let [plain, bare] = &floors[..] {
            let under = |row, of: fn(&Phases) -> Costs, theirs: &Costs| {
                let floors = Floors { plain: of(plain), bare: of(bare) };
                floors.under(row, "us", |it| &it.time, |own| ratios(&theirs.time, own))
            };
            compared.process = under(compared.process, |it| it.process.clone(), &theirs.process);
            compared.add = under(compared.add, |it| it.add.clone(), &theirs.add);
            let whole = |it: &Phases| Costs { cpu: it.cpu(), ..Costs::default() };
            let floors = Floors { plain: whole(plain), bare: whole(bare) };
            compared.cpu =
                floors.under(compared.cpu, "us", |it| &it.cpu, |own| ratios(own, &spent[1]));
        }
        compared
    }

    async fn measured(&self, program: &Program) -> Result<Measured, String> {
        let (mut ours, mut theirs) = (Phases::default(), Phases::default());
        let mut version = String::new();
        let server = server::start(|_| {}).await;
        let url = server.url().to_owned();
        let mut holdfast = Holdfast::new(server, &url, SIZE).await;
        let server = server::start(|_| {}).await;
        let mut under = match self.has_targets {
            true => Vec::from(Floor::both(SIZE).await),
            false => Vec::new(),
        };
        let mut floors: Vec<Phases> = under.iter().map(|_| Phases::default()).collect();
        // The first round warms up.
        for round in 0..=self.rounds {
            eprintln!("{}: round {round} of {}", self.name, self.rounds);
            let one = jobs(&mut holdfast, self.batches, 1).await;
            let (their_one, _) = program.jobs(&server, self.batches, 1).await?;
            let many = jobs(&mut holdfast, self.batches, AT_ONCE).await;
            let (their_many, told) = program.jobs(&server, self.batches, AT_ONCE).await?;
            version = told;
            for (floor, phases) in under.iter_mut().zip(&mut floors) {
                let [add, process] = floor.phases(self.batches, true).await;
                if round > 0 {
                    let job = Job { add, process };
                    phases.push(job, job);
                }
            }
            if round > 0 {
                ours.push(one, many);
                theirs.push(their_one, their_many);
            }
        }
        Ok(Measured { ours, theirs, floors, version })
    }
}

impl Phases {
    /// A round: jobs that were added by one call after another, and others by many at once.
    fn push(&mut self, one: Job, many: Job) {
        self.add.push(one.add);
        self.process.push(one.process);
        self.add_at_once.push(many.add);
    }

    /// Of a whole job, round by round.
    fn cpu(&self) -> Vec<f64> {
        self.add.cpu.iter().zip(&self.process.cpu).map(|(add, process)| add + process).collect()
    }
}

impl Program {
    /// Adds so many batches by some calls at once, then processes them; and the version of what did.
    async fn jobs(
        &self,
        server: &RedisServer,
        batches: usize,
        calls: usize,
    ) -> Result<(Job, String), String> {
        let (add, _) = self.run("add", server, batches, calls).await?;
        let (process, version) = self.run("process", server, batches, calls).await?;
        Ok((Job { add, process }, version))
    }

    async fn run(
        &self,
        phase: &str,
        server: &RedisServer,
        batches: usize,
        calls: usize,
    ) -> Result<(Cost, String), String> {
        let jobs = batches * BATCH;
        let numbers = [usize::from(server.port()), jobs, SIZE, ANSWER, calls];
        let mut command = Command::new(&self.path);
        command.args(&self.first).arg(phase).args(numbers.map(|number| number.to_string()));
        let before = Spent::by(server).await;
        let out = output(&mut command).await?;
        let told: Told =
            serde_json::from_str(out.trim()).map_err(|_| format!("{phase} told {out:?}"))?;
        // The start of the program is not in what it tells.
        let cost = cost(server, before, Duration::from_secs_f64(told.seconds), jobs).await;
        Ok((cost, told.version))
    }
}

/// Submits so many batches by some calls at once, then works them off as a worker and a reclaimer do.
async fn jobs(side: &mut Holdfast, batches: usize, calls: usize) -> Job {
    let ready: Vec<_> = (0..batches).map(|_| side.batch(BATCH)).collect();
    let (before, began) = (Spent::by(&side.server).await, Instant::now());
    let left = Mutex::new(ready.iter());
    let next = || left.lock().expect("nobody panics with it").next();
    // Boxed: eight of them at once are large.
    let call = || {
        Box::pin(async {
            while let Some(batch) = next() {
                side.submit(batch).await;
            }
        })
    };
    if calls == 1 {
        call().await;
    } else {
        assert_eq!(calls, AT_ONCE, "as many as stand here");
        tokio::join!(call(), call(), call(), call(), call(), call(), call(), call());
    }
    let add = cost(&side.server, before, began.elapsed(), batches * BATCH).await;
    let (before, began) = (Spent::by(&side.server).await, Instant::now());
    for _ in 0..batches {
        side.work(BATCH).await;
        side.sweep(BATCH).await;
    }
    let process = cost(&side.server, before, began.elapsed(), batches * BATCH).await;
    side.drain().await;
    Job { add, process }
}

fn row(what: String, ratios: &[f64], [ours, theirs]: [&Vec<f64>; 2]) -> Row {
    Row::new(what, "x", median(ratios))
        .note(format!("{:.1} and {:.1} us", median(ours), median(theirs)))
        .samples("ours", ours.clone())
        .samples("theirs", theirs.clone())
        .samples("ratios", ratios.to_vec())
}

/// Where a peer's sources lie.
pub(super) fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/peers").join(name)
}

/// Where a peer is got to: among what cargo builds.
pub(super) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers").join(name)
}

/// Runs a program to its end and gives what it printed, or why it could not.
pub(super) async fn output(command: &mut Command) -> Result<String, String> {
    let name = Path::new(command.as_std().get_program()).file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(LONGEST, command.output()).await;
    let ended = ended.map_err(|_| format!("{name} did not end in {} s", LONGEST.as_secs()))?;
    let out = ended.map_err(|error| format!("{name} can't be run: {error}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&out.stderr);
    let line = told.lines().find(|line| line.to_lowercase().contains("error"));
    Err(format!("{name}: {}: {}", out.status, line.or(told.lines().last()).unwrap_or("no word")))
}
