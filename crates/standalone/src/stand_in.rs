//! `holdfast stand-in`: an inference server that computes nothing, as a process of its own.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;

use holdfast_runtime::serve::bind;
use holdfast_runtime::settings::{LogFormat, LogSettings};
use holdfast_runtime::{BoxError, Process, Services};
use holdfast_stand_in::{Keep, Options, serve};

use crate::cli;
use crate::console::say;

/// How many arrivals can be looked at afterwards.
const KEPT: usize = 1000;

/// Runs until a signal.
pub(crate) fn run(process: Process, args: &cli::StandIn) -> ExitCode {
    let format = if std::io::stdout().is_terminal() { LogFormat::Pretty } else { LogFormat::Json };
    let log = LogSettings { format, filter: "info".to_owned() };
    process.run(&log, async || start(args.listen).await)
}

async fn start(listen: SocketAddr) -> Result<Services, BoxError> {
    let listener = bind("--listen", listen).await?;
    let address = listener.local_addr()?;
    let options = Options { keep: Keep::Last(KEPT), ..Options::default() };
    let mut services = Services::new();
    services.spawn("stand-in", |stop| serve(listener, options, stop));
    if !address.ip().is_loopback() {
        say("whoever reaches this address can read all that is sent to it, under /stand-in/");
    }
    say(format_args!(
        "stand-in  http://{address}  answers like an inference server and computes nothing: \
         the target of a queue, to try Holdfast with"
    ));
    Ok(services)
}
