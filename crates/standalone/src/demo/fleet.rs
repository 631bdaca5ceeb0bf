//! The processes of the demo: a Redis, a producer, workers and reclaimers, each gone with this one.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use holdfast_local_redis::{AppendFsync, PrivateServer, Tied, free_port, tied};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use super::gateway::credential;
use super::http::{Http, NoAnswer};
use super::settings::File as SettingsFile;
use crate::cli;
use crate::private_redis::{self, NoRedis};

/// The worker that is killed, the one that is frozen, and the one that does the rest.
pub(crate) const KILLED: &str = "worker-1";
pub(crate) const FROZEN: &str = "worker-2";
const SPARED: &str = "worker-3";

/// How long a role may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How many lines of a log an error tells.
const LOG_LINES: usize = 5;

/// Why the fleet does not sail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Aground {
    #[error(transparent)]
    Redis(#[from] NoRedis),
    #[error("{what}")]
    Io { what: String, source: io::Error },
    #[error("the settings of {name} can't be written")]
    Settings { name: String, source: toml::ser::Error },
    #[error("{name} ended ({status}): {log}")]
    Ended { name: String, status: ExitStatus, log: String },
    #[error("{name} is not ready within {} s: {log}", READY_LIMIT.as_secs())]
    NotReady { name: String, log: String },
    #[error("{name} can't be sent {signal}")]
    Signal { name: String, signal: Signal, source: nix::Error },
    #[error("the metrics of {name} can't be read")]
    Metrics { name: String, source: NoAnswer },
}

/// What the processes have in common.
pub(crate) struct Plan<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) server: &'a cli::Server,
    pub(crate) target: String,
    pub(crate) lease: Duration,
    pub(crate) every: Duration,
}

/// All processes. Dropped, they are killed, the Redis last.
pub(crate) struct Fleet {
    roles: Vec<Role>,
    api: SocketAddr,
    http: Http,
    _redis: PrivateServer,
}

/// One role.
struct Role {
    name: &'static str,
    process: Tied,
    ops: SocketAddr,
    log: PathBuf,
}

impl Fleet {
    /// Starts everything and waits until it is ready. Blocks while Redis starts.
    pub(crate) async fn start(plan: &Plan<'_>, http: Http) -> Result<Self, Aground> {
        let dir = plan.folder.join("redis");
        let redis = private_redis::start(plan.server, &dir, AppendFsync::EverySecond)?;
        let mut settings = SettingsFile::new(plan, redis.url(), address()?);
        let api = settings.api();
        let mut roles = Vec::new();
        for (kind, names) in [
            ("producer", &["producer"][..]),
            ("reclaimer", &["reclaimer-1", "reclaimer-2"]),
            ("worker", &[KILLED, FROZEN, SPARED]),
        ] {
            for name in names {
                settings.for_role(name, address()?);
                roles.push(Role::start(plan, kind, name, &settings)?);
            }
        }
        for role in &mut roles {
            role.wait_until_ready(&http).await?;
        }
        Ok(Self { roles, api, http, _redis: redis })
    }

    /// Where the API is.
    pub(crate) fn api(&self) -> SocketAddr {
        self.api
    }

    /// Kills a role with SIGKILL.
    pub(crate) fn kill(&mut self, name: &str) -> Result<(), Aground> {
        let what = format!("{name} can't be killed");
        let killed = self.role(name)?.process.kill();
        killed.map(drop).map_err(|source| Aground::Io { what, source })
    }

    /// Freezes a role with SIGSTOP.
    pub(crate) fn freeze(&mut self, name: &str) -> Result<(), Aground> {
        self.role(name)?.signal(Signal::SIGSTOP)
    }

    /// Wakes a role with SIGCONT.
    pub(crate) fn wake(&mut self, name: &str) -> Result<(), Aground> {
        self.role(name)?.signal(Signal::SIGCONT)
    }

    /// How many settlements were refused because the lease was another's, over all workers that live.
    pub(crate) async fn fenced(&mut self) -> Result<u64, Aground> {
        let mut sum = 0;
        for name in [FROZEN, SPARED] {
            let http = self.http.clone();
            let url = format!("http://{}/metrics", self.role(name)?.ops);
            let failed = |source| Aground::Metrics { name: name.to_owned(), source };
            let text = http.get(&url).await.map_err(failed)?.body;
            sum += fenced(&String::from_utf8_lossy(&text));
        }
        Ok(sum)
    }

    /// A role that still runs.
    fn role(&mut self, name: &str) -> Result<&mut Role, Aground> {
        let missing =
            || Aground::Io { what: format!("no {name}"), source: io::ErrorKind::NotFound.into() };
        let role = self.roles.iter_mut().find(|role| role.name == name).ok_or_else(missing)?;
        role.check_runs()?;
        Ok(role)
    }
}

/// A loopback address that nobody listens on.
fn address() -> Result<SocketAddr, Aground> {
    let none = |source| Aground::Io { what: "no free port".to_owned(), source };
    Ok((Ipv4Addr::LOCALHOST, free_port().map_err(none)?).into())
}

impl Role {
    fn start(
        plan: &Plan<'_>,
        kind: &str,
        name: &'static str,
        settings: &SettingsFile,
    ) -> Result<Self, Aground> {
        let failed = |what: &str| {
            let what = format!("{what} of {name}");
            |source| Aground::Io { what, source }
        };
        let path = |ending: &str| plan.folder.join(format!("{name}.{ending}"));
        let (config, log) = (path("toml"), path("log"));
        let text = toml::to_string(settings)
            .map_err(|source| Aground::Settings { name: name.to_owned(), source })?;
        fs::write(&config, text).map_err(failed("the settings"))?;
        fs::write(settings.credential_file(), credential(name))
            .map_err(failed("the credential"))?;
        let output = File::create(&log).map_err(failed("the log"))?;
        let complaints = output.try_clone().map_err(failed("the log"))?;
        let program = std::env::current_exe().map_err(failed("the program"))?;

        let mut command = tied::command(&program);
        command.args(["role", kind, "--config"]).arg(config);
        // What the user has set for a fleet of their own is not for this one.
        command.env_clear().envs(plan.server.search_path.as_ref().map(|path| ("PATH", path)));
        command.stdin(Stdio::null()).stdout(output).stderr(complaints);
        let process = Tied::spawn(command).map_err(failed("the process"))?;
        Ok(Self { name, process, ops: settings.ops(), log })
    }

    async fn wait_until_ready(&mut self, http: &Http) -> Result<(), Aground> {
        let (url, until) = (format!("http://{}/readyz", self.ops), Instant::now() + READY_LIMIT);
        while !http.get(&url).await.is_ok_and(|answer| answer.status.is_success()) {
            self.check_runs()?;
            if Instant::now() >= until {
                return Err(Aground::NotReady { name: self.name.to_owned(), log: self.log_tail() });
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    fn check_runs(&mut self) -> Result<(), Aground> {
        let unseen = |source| Aground::Io { what: format!("lost sight of {}", self.name), source };
        match self.process.ended().map_err(unseen)? {
            None => Ok(()),
            Some(status) => {
                Err(Aground::Ended { name: self.name.to_owned(), status, log: self.log_tail() })
            }
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Aground> {
        let failed = |source| Aground::Signal { name: self.name.to_owned(), signal, source };
        let pid = i32::try_from(self.process.pid()).map_err(|_| failed(nix::Error::ESRCH))?;
        kill(Pid::from_raw(pid), signal).map_err(failed)
    }

    fn log_tail(&self) -> String {
        let text = match fs::read(&self.log) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(err) => return format!("no log: {err}"),
        };
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
    }
}

/// The settlements that a worker's metrics count as fenced.
fn fenced(metrics: &str) -> u64 {
    let samples = metrics.lines().filter_map(|line| line.rsplit_once(' '));
    let fenced = samples.filter(|(series, _)| {
        series.split_once('{').is_some_and(|(name, labels)| {
            name.ends_with("_settles_total") && labels.contains(r#"outcome="fenced""#)
        })
    });
    fenced.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fenced_settlements_are_summed_over_all_queues_and_nothing_else_is() {
        let metrics = "# TYPE holdfast_settles_total counter\n\
            holdfast_settles_total{queue=\"a\",outcome=\"fenced\"} 3\n\
            holdfast_settles_total{outcome=\"fenced\",queue=\"b\"} 4\n\
            holdfast_settles_total{queue=\"a\",outcome=\"ack\"} 100\n\
            holdfast_others_total{queue=\"a\",outcome=\"fenced\"} 100\n";
        assert_eq!(fenced(metrics), 7);
        assert_eq!(fenced(""), 0);
    }
}
