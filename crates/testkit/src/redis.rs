//! A Redis of the test's own.

mod client;
mod which;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_local_redis::{Options, PrivateServer};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

pub use self::client::Client;
pub(crate) use self::client::Connection;
pub(crate) use self::which::{binary, recent};
use crate::{Value, eventually, open_files, signal};

const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A real server in a folder of its own, gone with its last owner.
pub struct RedisServer {
    server: Arc<Mutex<PrivateServer>>,
    client: Client,
    port: u16,
    url: String,
    unix_url: String,
    dir: PathBuf,
    // Dropped after the server.
    _dir: TempDir,
}

impl RedisServer {
    /// Starts a server that keeps its data and writes it through once a second.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts a server that differs: `RedisServer::with(|it| it.appendfsync = AppendFsync::Always)`.
    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        open_files::raise_limit();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut options = Options::new(binary().await, dir.path());
        change(&mut options);
        let started =
            spawn_blocking(|| PrivateServer::start(options)).await.expect("the start of a server");
        let server = started.unwrap_or_else(|err| panic!("{err}: {}", chain(&err)));
        Self {
            client: Client::new(server.port()),
            port: server.port(),
            url: server.url(),
            dir: server.dir().to_owned(),
            unix_url: server.unix_url().unwrap_or_default(),
            server: Arc::new(Mutex::new(server)),
            _dir: dir,
        }
    }

    /// Starts a server that has what an old one lacks: the one that is fetched, whatever lies in `PATH`, unless the tests are
    /// asked to run on another that will do.
    pub async fn recent(change: impl FnOnce(&mut Options)) -> Self {
        let binary = recent().await;
        Self::with(|it| {
            it.binary = binary;
            change(it);
        })
        .await
    }

    /// Starts a server of a kind and version, as `redis-7.0`, for what others can't do.
    pub async fn of(server: &'static str, change: impl FnOnce(&mut Options)) -> Self {
        let binary = which::of(server).await;
        Self::with(|it| {
            it.binary = binary;
            change(it);
        })
        .await
    }

    /// Where it listens, as `redis.url` wants it. The same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its unix socket, as `redis.url` wants it; empty if it has none.
    pub fn unix_url(&self) -> &str {
        &self.unix_url
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder: data, log, socket.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its process id; another one after a restart.
    pub fn pid(&self) -> u32 {
        lock(&self.server).pid()
    }

    /// Runs one command on a connection of the test's own.
    pub async fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Value {
        self.client.command(words).await
    }

    /// The same while the server may be away.
    pub async fn try_command<W: AsRef<[u8]>>(&self, words: &[W]) -> io::Result<Value> {
        self.client.try_command(words).await
    }

    /// How often each command has run since the start or the last `CONFIG RESETSTAT`, by its name in lower case.
    pub async fn command_counts(&self) -> BTreeMap<String, u64> {
        let info = self.command(&["INFO", "commandstats"]).await;
        let lines = info.text().expect("INFO is text").lines();
        let counts = lines.filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split_once(',')?.0.parse().ok()?))
        });
        counts.collect()
    }

    /// Waits until it is a replica of the server on one of these ports, has all that it has, and is sent its writes. What a
    /// primary says is not enough: it calls a replica online that is still reading its first copy.
    pub async fn follows(&self, primary: &[u16], limit: Duration) {
        eventually("the replica is in step", limit, async || {
            let info = self.try_command(&["INFO", "replication"]).await;
            let info = info.map_err(|err| err.to_string())?;
            let text = info.text().unwrap_or_default();
            let has = |line: &str| text.lines().any(|it| it.trim_end() == line);
            let is_its = primary.iter().any(|port| has(&format!("master_port:{port}")));
            match is_its && has("master_link_status:up") {
                true => Ok(()),
                false => Err(text.to_owned()),
            }
        })
        .await;
    }

    /// Kills it with SIGKILL.
    pub async fn kill(&self) {
        self.blocking(|server| server.kill()).await.expect("the server is killed");
    }

    /// Ends it in order, its data written.
    pub async fn stop(&self) {
        self.blocking(|server| server.stop(STOP_LIMIT)).await.expect("the server is stopped");
    }

    /// Starts it again on its port and its data; one that still runs is stopped first.
    pub async fn restart(&self) {
        self.blocking(|server| server.restart()).await.expect("the server is restarted");
    }

    /// Freezes it with SIGSTOP: connections stay, nothing is answered.
    pub fn pause(&self) {
        signal::send(self.pid(), Signal::SIGSTOP);
    }

    /// Wakes it with SIGCONT.
    pub fn resume(&self) {
        signal::send(self.pid(), Signal::SIGCONT);
    }

    /// Does something slow without stopping the test's other tasks.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut PrivateServer) -> T + Send + 'static,
    ) -> T {
        let server = Arc::clone(&self.server);
        spawn_blocking(move || work(&mut lock(&server))).await.expect("work on the server")
    }
}

/// A panic elsewhere leaves the server as it was: killing it must still work.
fn lock(server: &Mutex<PrivateServer>) -> std::sync::MutexGuard<'_, PrivateServer> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

fn chain(err: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(err.source(), |err| err.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
