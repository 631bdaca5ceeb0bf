//! Queues with nothing to do: what the roles and Redis take of the processor all the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use holdfast_testkit::{Process, RedisServer};
use tokio::time::sleep;

use crate::Effort;
use crate::fleet::{Fleet, Role};
use crate::machine::{self, Machine};
use crate::report::{Report, Row};
use crate::server;
use crate::spending;

/// How many queues of one shard, and how many more.
const QUEUES: [usize; 2] = [100, 200];

/// Until everything that comes with a start is over.
const REST: Duration = Duration::from_secs(8);

/// How long scripts are counted by their names, apart from what is measured.
const NAMED: Duration = Duration::from_secs(4);

/// What was taken while nothing was done.
struct Taken {
    /// By who, in percent of a core.
    shares: Vec<(&'static str, f64)>,
    /// Commands a second that clients sent or scripts ran, by their name.
    commands: BTreeMap<String, f64>,
    /// Scripts a second, by their name.
    scripts: BTreeMap<String, f64>,
}

impl Taken {
    fn all(&self) -> f64 {
        self.shares.iter().map(|(_, share)| share).sum()
    }
}

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let before = machine::load();
    let server = server::start(|_| {}).await;
    let machine = Machine::look(&server).await;
    drop(server);
    let time = Duration::from_secs(if effort == Effort::Quick { 10 } else { 60 });
    let [few, many] = [measured(QUEUES[0], time).await, measured(QUEUES[1], time).await];
    let more = many.all() - few.all();
    let rows = vec![
        share(&few, QUEUES[0]).at_most(1.0),
        share(&many, QUEUES[1]),
        Row::new("idle, each further 100 shards: of a core", "%", more).note(format!(
            "{:.2} % with {}, {:.2} % with {}",
            many.all(),
            QUEUES[1],
            few.all(),
            QUEUES[0]
        )),
        called("scripts", QUEUES[0], few.scripts),
        called("commands, those in scripts among them", QUEUES[0], few.commands),
        called("scripts", QUEUES[1], many.scripts),
        called("commands, those in scripts among them", QUEUES[1], many.commands),
    ];
    Report::new("idle", machine, [before, machine::load()], rows)
}

fn share(taken: &Taken, queues: usize) -> Row {
    let mut note = String::new();
    for (who, share) in &taken.shares {
        write!(note, "{who} {share:.2} ").expect("text");
    }
    let row = Row::new(
        format!("idle, {queues} queues of one shard: all processes, of a core"),
        "%",
        taken.all(),
    );
    let row = row.note(note.trim_end());
    taken.shares.iter().fold(row, |row, (who, share)| row.samples(*who, vec![*share]))
}

/// How often what is called, the most frequent first.
fn called(what: &str, queues: usize, calls: BTreeMap<String, f64>) -> Row {
    let mut sorted: Vec<_> = calls.iter().filter(|(_, rate)| **rate >= 0.05).collect();
    sorted.sort_by(|one, other| other.1.total_cmp(one.1));
    let each = sorted.iter().map(|(name, rate)| format!("{name} {rate:.1}"));
    let row = Row::new(format!("idle, {queues} queues: {what}"), "/s", calls.values().sum())
        .note(each.collect::<Vec<_>>().join(", "));
    calls.into_iter().fold(row, |row, (name, rate)| row.samples(name, vec![rate]))
}

/// The three roles over so many queues.
async fn measured(queues: usize, time: Duration) -> Taken {
    eprintln!("idle: {queues} queues, {time:?}");
    let redis = server::start(|_| {}).await;
    let mut settings = String::new();
    for queue in 0..queues {
        writeln!(settings, "[queues.q{queue:03}]\ntarget = \"http://127.0.0.1:9\"").expect("text");
    }
    let fleet = Fleet::new(&redis, &settings);
    let roles: [(&str, Process); 3] = [
        ("producer", fleet.start(Role::Producer).await),
        ("worker", fleet.start(Role::Worker).await),
        ("reclaimer", fleet.start(Role::Reclaimer).await),
    ];
    sleep(REST).await;
    let processes =
        roles.iter().map(|(name, role)| (*name, role.pid())).chain([("redis", redis.pid())]);
    let cpu = processes.clone().map(|(name, pid)| (name, spending::cpu(pid)));
    let (counts, before, began) =
        (redis.command_counts().await, cpu.clone().collect::<Vec<_>>(), Instant::now());
    sleep(time).await;
    let (after, took) = (cpu, began.elapsed().as_secs_f64());
    let shares = after
        .zip(before)
        .map(|((name, after), (_, before))| (name, 100.0 * (after - before).as_secs_f64() / took));
    let shares = shares.collect();
    let rate = |(name, calls): (String, u64)| {
        let before = counts.get(&name).copied().unwrap_or_default();
        (name, (calls - before) as f64 / took)
    };
    let commands = redis.command_counts().await.into_iter().map(rate).collect();
    Taken { shares, commands, scripts: scripts(&redis).await }
}

/// Which scripts run: the slow log keeps every command for a while.
async fn scripts(redis: &RedisServer) -> BTreeMap<String, f64> {
    server::log_from(redis, 0).await;
    sleep(NAMED).await;
    let names: BTreeMap<String, f64> = BTreeMap::new();
    server::slow(redis).await.into_iter().fold(names, |mut names, slow| {
        *names.entry(slow.script).or_default() += 1.0 / NAMED.as_secs_f64();
        names
    })
}
