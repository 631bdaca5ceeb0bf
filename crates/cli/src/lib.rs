//! holdfastctl, the operator's tool.
//!
//! # Reading order
//!
//! 1. `args`: the commands and their flags.
//! 2. `output`, `notes`, `failure`: what is printed, what is told beside it, and how a command fails. Nothing else
//!    writes to the terminal; `escape` makes foreign text harmless there.
//! 3. Over HTTP, by `call`, `api` and `caller`: `one` (submit one body), `requests` (get, result, cancel), `ls`, and `file`, which
//!    submits a file of OpenAI batch lines.
//! 4. Operators' calls, by `ops`, over HTTP or straight at Redis (`store`): `single` (why, retry-now; `suggestion`), `queues`, `leases`,
//!    `dead`, `workers`. What they mean is the core's.
//! 5. `doctor` looks whether Redis is well.
//! 6. By neither: `keys`, `scripts`, `check`. [`foreign`] has the readers of files and answers, alone.

mod api;
mod args;
mod call;
mod caller;
mod check;
mod dead;
mod doctor;
mod ended;
mod escape;
mod failure;
mod file;
pub mod foreign;
mod item;
mod keys;
mod leases;
mod listing;
mod ls;
mod notes;
mod one;
mod ops;
mod output;
mod queues;
mod reply;
mod requests;
mod scripts;
mod single;
mod store;
mod suggestion;
mod table;
mod time;
mod tls;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;
use notes::Notes;
use output::Output;

/// How long a thread that reads a stuck file may hold up the end.
const STUCK: Duration = Duration::from_millis(500);

/// Runs a command line, the program's name first, and says how to exit.
///
/// Exit codes: 0; 1 for everything that failed; 2 for a command line that can't be understood; 3 if doctor found a fault; 64 for settings that can't be
/// used; 141 if nobody reads the output any more, as a shell tells it of any program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut output = Output::stdout();
    let ran = match Args::try_parse_from(arguments) {
        Ok(args) => execute(args.command, &mut output),
        Err(wrong) => explain(&wrong, &mut output),
    };
    // The last bytes may be what does not fit on a full disk.
    let ran = ran.and_then(|()| output.finish());
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(&Notes::plain());
            ExitCode::from(failure.code())
        }
    }
}

/// Help and version are an answer; anything else is told where errors go.
fn explain(wrong: &clap::Error, output: &mut Output) -> Result<(), Failure> {
    let text = wrong.render().to_string();
    if wrong.use_stderr() { Err(Failure::Usage(text)) } else { output.text(&text) }
}

fn execute(command: Command, output: &mut Output) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|err| Failure::Runtime(err.kind()))?;
    let ran = runtime.block_on(dispatch(command, output));
    runtime.shutdown_timeout(STUCK);
    ran
}

async fn dispatch(command: Command, output: &mut Output) -> Result<(), Failure> {
    use args::{DeadCommand, KeyCommand, LeaseCommand, QueueCommand, ScriptCommand, WorkerCommand};
    match command {
        Command::Submit(args) => match &args.file {
            Some(path) => file::submit(path, &args, output).await,
            None => one::submit(&args, output).await,
        },
        Command::Get(args) => requests::get(&args, output).await,
        Command::Result(args) => requests::result(&args, output).await,
        Command::Cancel(args) => requests::cancel(&args, output).await,
        Command::Key(KeyCommand::New(args)) => keys::new(&args, output),
        Command::Key(KeyCommand::Ls(args)) => keys::list(&args, output),
        Command::Ls(args) => ls::list(&args, output).await,
        Command::Script(ScriptCommand::Ls(args)) => scripts::list(args.output, output),
        Command::Script(ScriptCommand::Show(args)) => scripts::show(&args.name, output),
        Command::Check(args) => check::run(&args, output),
        Command::Why(args) => single::why(&args, output).await,
        Command::RetryNow(args) => single::retry_now(&args, output).await,
        Command::Queue(QueueCommand::Ls(args)) => queues::list(&args, output).await,
        Command::Queue(QueueCommand::Pause(args)) => queues::pause(&args, true, output).await,
        Command::Queue(QueueCommand::Resume(args)) => queues::pause(&args, false, output).await,
        Command::Queue(QueueCommand::Limit(args)) => queues::limit(&args, output).await,
        Command::Lease(LeaseCommand::Ls(args)) => leases::list(&args, output).await,
        Command::Lease(LeaseCommand::Release(args)) => leases::release(&args, output).await,
        Command::Worker(WorkerCommand::Ls(args)) => workers::list(&args, output).await,
        Command::Doctor(args) => doctor::run(&args, output).await,
        Command::Dead(DeadCommand::Ls(args)) => dead::list(&args, output).await,
        Command::Dead(DeadCommand::Show(args)) => dead::show(&args, output).await,
        Command::Dead(DeadCommand::Redrive(args)) => dead::redrive(&args, output).await,
    }
}
