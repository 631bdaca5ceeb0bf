//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_local_redis as local_redis;

/// Holdfast takes HTTP requests for an inference server, keeps them, and calls it when there is room.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process, over a private Redis in a folder of its own
    Up(Up),
    /// Run the roles as processes, kill one, freeze another, and prove that nothing got lost
    Demo(Demo),
    /// Run an inference server that computes nothing, to try roles with that run on their own
    StandIn(StandIn),
    /// Run one role: the demo's processes
    #[command(hide = true)]
    Role(Role),
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The inference server, for example http://127.0.0.1:8000; without it a stand-in answers
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<String>,
    /// The folder in which the private Redis keeps its data
    #[arg(long, value_name = "DIR", default_value = "holdfast-data")]
    pub(crate) data: PathBuf,
    /// A settings file; if redis.url is set in it, no private Redis is started
    #[arg(long, value_name = "FILE", env = "HOLDFAST_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Where health and metrics of all roles are; ops_listen of a role's section has no effect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    pub(crate) ops_listen: SocketAddr,
    /// When the private Redis writes through to the disk: before each answer, each second, or when the system pleases
    #[arg(long, value_enum, default_value_t = AppendFsync::Everysec)]
    pub(crate) appendfsync: AppendFsync,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How the ledger is printed
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// How many requests are submitted
    #[arg(long, value_name = "N", default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(60..=3_000))]
    pub(crate) requests: u32,
    /// How long a worker's lease lasts without a renewal
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub(crate) lease: String,
    /// A folder for data and logs, which is kept; otherwise they are removed after a clean run
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: Server,
}

/// Which Redis is run.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// The redis-server or valkey-server to run; otherwise one is looked for, and fetched if there is none
    #[arg(long, value_name = "PATH")]
    pub(crate) redis_server: Option<PathBuf>,
    /// Where programs are looked for
    #[arg(long, value_name = "PATHS", env = "PATH", hide = true)]
    pub(crate) search_path: Option<OsString>,
}

impl Server {
    /// Where programs are looked for; nowhere, if nobody says.
    pub(crate) fn search_path(&self) -> OsString {
        self.search_path.clone().unwrap_or_default()
    }
}

#[derive(Debug, Args)]
pub(crate) struct StandIn {
    /// Where it listens; all that is sent to it can be read there
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub(crate) listen: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct Role {
    /// Which one
    #[arg(value_enum)]
    pub(crate) role: RoleName,
    /// The settings file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    Producer,
    Worker,
    Reclaimer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// Spelled as Redis spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AppendFsync {
    Always,
    Everysec,
    No,
}

impl From<AppendFsync> for local_redis::AppendFsync {
    fn from(given: AppendFsync) -> Self {
        match given {
            AppendFsync::Always => Self::Always,
            AppendFsync::Everysec => Self::EverySecond,
            AppendFsync::No => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn up_needs_no_argument() {
        let Command::Up(up) = Cli::parse_from(["holdfast", "up"]).command else { panic!("no up") };
        assert_eq!(up.data, PathBuf::from("holdfast-data"));
        assert_eq!(up.ops_listen.to_string(), "127.0.0.1:9090");
        assert_eq!((up.target, up.appendfsync), (None, AppendFsync::Everysec));
    }

    #[test]
    fn a_demo_of_too_few_requests_is_refused() {
        assert!(Cli::try_parse_from(["holdfast", "demo", "--requests", "59"]).is_err());
        assert!(Cli::try_parse_from(["holdfast", "demo", "--requests", "60"]).is_ok());
    }
}
