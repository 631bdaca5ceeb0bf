//! How a private server is run.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::StartError;
use super::folder::Folder;
use crate::written::WrittenBy;

/// When the server writes its log of changes through to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFsync {
    /// Before each answer.
    Always,
    /// Once a second: a crash of the machine loses at most that.
    EverySecond,
    /// When the system pleases.
    Never,
}

/// How a private server is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, as [`Resolver`](crate::Resolver) found it.
    pub binary: PathBuf,
    /// What the server is, to be noted beside its data: [`Resolver::resolve_for`](crate::Resolver::resolve_for) reads it.
    pub noted: Option<WrittenBy>,
    /// Its folder: data, log, unix socket, pid file. Made if it isn't there.
    pub dir: PathBuf,
    /// Its port on 127.0.0.1; a free one if there is none here.
    pub port: Option<u16>,
    /// Whether it listens on `redis.sock` in its folder too.
    pub unix_socket: bool,
    /// Whether changes are kept on disk.
    pub appendonly: bool,
    /// When they are written through.
    pub appendfsync: AppendFsync,
    /// How long it may take to answer; while it says that it reads its data, that time begins anew.
    pub ready_within: Duration,
    /// Further arguments, for example `["--maxmemory", "100mb"]`. They win over ours.
    pub args: Vec<String>,
}

impl Options {
    /// A server that keeps its data, on a free port and a unix socket.
    pub fn new(binary: impl Into<PathBuf>, dir: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            noted: None,
            dir: dir.into(),
            port: None,
            unix_socket: true,
            appendonly: true,
            appendfsync: AppendFsync::EverySecond,
            ready_within: Duration::from_secs(30),
            args: Vec::new(),
        }
    }

    /// Gives a command everything but the program.
    pub(super) fn fill(
        &self,
        command: &mut Command,
        folder: &Folder,
        port: u16,
    ) -> Result<(), StartError> {
        let log = folder.new_log().map_err(StartError::io("can't open the server's log"))?;
        let too = log.try_clone().map_err(StartError::io("can't open the server's log"))?;
        command.stdin(Stdio::null()).stdout(log).stderr(too);
        // A Ctrl-C at the terminal must not end the server before its owner has drained.
        command.process_group(0);

        let yes_no = |yes| if yes { "yes" } else { "no" };
        let appendfsync = match self.appendfsync {
            AppendFsync::Always => "always",
            AppendFsync::EverySecond => "everysec",
            AppendFsync::Never => "no",
        };
        command.args([
            "--bind",
            "127.0.0.1",
            "--protected-mode",
            "yes",
            "--port",
            &port.to_string(),
        ]);
        command.args(["--daemonize", "no", "--maxmemory-policy", "noeviction", "--save", ""]);
        command.args(["--appendonly", yes_no(self.appendonly), "--appendfsync", appendfsync]);
        command.arg("--dir").arg(folder.path());
        if self.unix_socket {
            command.arg("--unixsocket").arg(folder.socket()).args(["--unixsocketperm", "700"]);
        }
        command.args(&self.args);
        Ok(())
    }
}
