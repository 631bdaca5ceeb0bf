//! `holdfast demo`: the roles as processes of their own, a worker killed, another frozen, and a ledger.
//!
//! `scenario` is what happens, to the processes of `fleet` and before the eyes of `gateway`, the inference server;
//! `submit` are the callers; `ledger` adds up what both saw, and `report` tells it.

mod fleet;
mod gateway;
mod http;
mod ledger;
mod report;
mod requests;
mod scenario;
mod settings;
mod submit;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use holdfast_runtime::{Chain, Problems};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::cli;
use crate::console::{say, unusable};
use fleet::{Aground, Fleet, Plan};
use gateway::Gateway;
use http::Http;
use ledger::{Evidence, Ledger};
use report::Story;
use requests::Request;
use scenario::{Flop, Scenario};
use submit::{Callers, NotAccepted};

/// How long the run may take in all, beyond its leases, and for each request.
const RUN_LIMIT: Duration = Duration::from_secs(60);
const FOR_EACH: Duration = Duration::from_millis(100);
/// Leases that have to lapse in a run, and some to spare.
const LEASES: u32 = 4;

/// Why there is no ledger.
#[derive(Debug, thiserror::Error)]
enum NoLedger {
    #[error("unusable settings")]
    Settings(Problems),
    #[error("{what}")]
    Io { what: &'static str, source: io::Error },
    #[error("the demo's processes failed")]
    Fleet(#[from] Aground),
    #[error("the demo could not be played")]
    Flop(#[from] Flop),
    #[error("the requests could not be submitted")]
    Submit(#[from] NotAccepted),
}

impl NoLedger {
    fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// Runs it, and prints the ledger. The exit code says whether it is clean.
pub(crate) fn run(args: &cli::Demo) -> ExitCode {
    match Folder::of(args.data.as_deref()).and_then(|folder| demonstrate(args, folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(NoLedger::Settings(problems)) => unusable(&problems),
        Err(err) => {
            say(Chain(&err));
            ExitCode::FAILURE
        }
    }
}

/// Whether the run was clean.
fn demonstrate(args: &cli::Demo, folder: Folder) -> Result<bool, NoLedger> {
    let (lease, every) = settings::timing(&args.lease).map_err(NoLedger::Settings)?;
    let runtime = tokio::runtime::Runtime::new().map_err(NoLedger::io("no runtime"))?;
    let requests = Request::all(rand::random(), args.requests as usize);
    let show = Show { args, folder: folder.path(), lease, every };
    let ledger = runtime.block_on(show.run(requests));
    // What is still under way is of no use any more.
    runtime.shutdown_background();

    let faults = match &ledger {
        Ok(ledger) => {
            let printed = report::print(ledger, args.output, lease);
            printed.map_err(NoLedger::io("the ledger can't be printed"))?;
            ledger.faults(args.requests as usize, lease)
        }
        Err(_) => Vec::new(),
    };
    let is_clean = ledger.is_ok() && faults.is_empty();
    if !is_clean && !folder.is_empty() {
        let kept = folder.keep();
        say(format_args!("the logs of all processes are in {}", kept.display()));
    }
    ledger?;
    say(if is_clean { "clean".to_owned() } else { format!("NOT CLEAN: {}", faults.join("; ")) });
    Ok(is_clean)
}

/// One run.
struct Show<'a> {
    args: &'a cli::Demo,
    folder: &'a Path,
    lease: Duration,
    every: Duration,
}

impl Show<'_> {
    async fn run(&self, requests: Vec<Request>) -> Result<Ledger, NoLedger> {
        let gateway =
            Gateway::start().await.map_err(NoLedger::io("the stand-in does not start"))?;
        let http = Http::new();
        let plan = Plan {
            folder: self.folder,
            server: &self.args.server,
            target: gateway.url(),
            lease: self.lease,
            every: self.every,
        };
        let mut fleet = Fleet::start(&plan, http.clone()).await?;
        let story = Story::new(requests.len());
        story.tell(format_args!(
            "a producer, 3 workers and 2 reclaimers run, each a process; submitting {} requests to http://{}",
            requests.len(),
            fleet.api()
        ));

        let callers = Callers::new(http, fleet.api(), story.clone());
        let scenario = Scenario {
            gateway: &gateway,
            callers: &callers,
            story: &story,
            requests: requests.len(),
            lease: self.lease,
        };
        let give_up =
            Instant::now() + RUN_LIMIT + self.lease * LEASES + FOR_EACH * self.args.requests;
        let played = async { scenario.play(&mut fleet).await.map_err(NoLedger::from) };
        let called = async { callers.run(requests, give_up).await.map_err(NoLedger::from) };
        let outcome = tokio::try_join!(played, called);
        story.finish();
        let (played, ()) = outcome?;
        let evidence = Evidence {
            last: callers.read_again().await,
            first: callers.first(),
            accepted: callers.accepted(),
            arrivals: gateway.arrivals(),
            kill: played.kill,
            fenced: played.fenced,
        };
        Ok(Ledger::of(&evidence))
    }
}

/// Where data and logs of a run lie.
enum Folder {
    /// The user's: it stays.
    Given(PathBuf),
    /// Ours: it goes, unless something is to be seen in it.
    Temporary(TempDir),
}

impl Folder {
    fn of(given: Option<&Path>) -> Result<Self, NoLedger> {
        match given {
            None => {
                let made = tempfile::Builder::new().prefix("holdfast-demo-").tempdir();
                made.map(Self::Temporary).map_err(NoLedger::io("no temporary folder"))
            }
            Some(path) => {
                let made = fs::create_dir_all(path).and_then(|()| fs::canonicalize(path));
                made.map(Self::Given).map_err(NoLedger::io("the folder can't be used"))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(dir) => dir.path(),
        }
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.path()).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn keep(self) -> PathBuf {
        match self {
            Self::Given(path) => path,
            Self::Temporary(dir) => dir.keep(),
        }
    }
}
