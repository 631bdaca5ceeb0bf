//! One primary, one replica, and sentinels that watch them: real processes of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::redis::recent;
use crate::{Client, Process, RedisOptions, RedisServer, Relay, Value, eventually, free_port};

/// The name of the primary, as clients ask for it.
const NAME: &str = "main";
/// How long a primary is silent before a sentinel takes it for dead.
const DOWN_AFTER: Duration = Duration::from_millis(1000);
/// How long a failover may take before it is tried anew.
const FAILOVER: Duration = Duration::from_secs(6);
/// How long the set-up may take.
const SET_UP: Duration = Duration::from_secs(30);

/// Two servers, of which one is the primary at a time, and those that decide which.
///
/// Everybody knows the servers by the addresses of their relays, so that one can be cut off from all or from its peers.
pub struct Sentinel {
    sentinels: Vec<Watcher>,
    relays: [Relay; 2],
    servers: [RedisServer; 2],
}

/// One sentinel.
struct Watcher {
    process: Process,
    client: Client,
    port: u16,
    // It keeps what it knows in its own settings file there.
    _dir: TempDir,
}

impl Sentinel {
    /// So many sentinels, all of whom but a minority must agree.
    pub async fn start(sentinels: usize) -> Self {
        Self::with(sentinels, |_| {}).await
    }

    /// The same with servers that have what an old one lacks.
    pub async fn recent(sentinels: usize, change: impl Fn(&mut RedisOptions)) -> Self {
        let binary = recent().await;
        let change = |options: &mut RedisOptions| {
            options.binary.clone_from(&binary);
            change(options);
        };
        Self::with(sentinels, change).await
    }

    /// The same with servers that differ.
    pub async fn with(sentinels: usize, change: impl Fn(&mut RedisOptions)) -> Self {
        let mut binary = PathBuf::new();
        let relays = [Relay::start(0).await, Relay::start(0).await];
        let mut start = async |own: &Relay, of: Option<&Relay>| {
            let server = RedisServer::with(|options| {
                change(options);
                binary.clone_from(&options.binary);
                options.args.extend(announced(own.port()));
                options.args.extend(of.into_iter().flat_map(|it| replica_of(it.port())));
            });
            let server = server.await;
            own.lead_to(server.port());
            server
        };
        let [first, second] = &relays;
        let servers = [start(first, None).await, start(second, Some(first)).await];
        let mut group = Self { sentinels: Vec::new(), relays, servers };
        group.replicating(0).await;
        for _ in 0..sentinels {
            group
                .sentinels
                .push(Watcher::start(&binary, group.relays[0].port(), sentinels / 2 + 1).await);
        }
        group.agreed(sentinels).await;
        group
    }

    /// How clients are told to find the primary.
    pub fn url(&self) -> String {
        let mut ports = self.sentinels.iter().map(|sentinel| sentinel.port);
        let first = ports.next().expect("a sentinel");
        let others: String = ports.map(|port| format!("&node=127.0.0.1:{port}")).collect();
        format!("redis-sentinel://127.0.0.1:{first}?sentinelServiceName={NAME}{others}")
    }

    /// One of the two servers: 0 is the primary at first.
    pub fn server(&self, which: usize) -> &RedisServer {
        &self.servers[which]
    }

    /// The address by which everybody else knows that server.
    pub fn relay(&self, which: usize) -> &Relay {
        &self.relays[which]
    }

    /// Which server is the primary, as the sentinels say it; none: they do not agree, or do not answer.
    pub async fn primary(&self) -> Option<usize> {
        let mut said = None;
        for sentinel in &self.sentinels {
            let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
            let told = sentinel.client.try_command(&asked).await.ok()?;
            let port: u16 = told.array()?.get(1)?.text()?.parse().ok()?;
            let which = self.relays.iter().position(|relay| relay.port() == port)?;
            if *said.get_or_insert(which) != which {
                return None;
            }
        }
        said
    }

    /// Waits until the sentinels name that server, and it takes writes.
    pub async fn promoted(&self, which: usize, limit: Duration) {
        eventually(&format!("server {which} is the primary"), limit, async || {
            let named = self.primary().await;
            if named != Some(which) {
                return Err(format!("the sentinels say {named:?}"));
            }
            let role = self.servers[which].try_command(&["ROLE"]).await;
            let role = role.map_err(|err| err.to_string())?;
            let word = role.array().and_then(|parts| parts.first()).and_then(Value::text);
            if word == Some("master") { Ok(()) } else { Err(format!("{role:?}")) }
        })
        .await;
    }

    /// Waits until the other server has all that `primary` has, and is sent its writes.
    pub async fn replicating(&self, primary: usize) {
        let replica = 1 - primary;
        let known = [self.servers[primary].port(), self.relays[primary].port()];
        self.servers[replica].follows(&known, SET_UP).await;
    }

    /// Has the sentinels promote the replica while the primary is well.
    pub async fn switch(&self) {
        let told = self.sentinels[0].client.command(&["SENTINEL", "FAILOVER", NAME]).await;
        assert_eq!(told, Value::Simple("OK".into()), "no failover");
    }

    /// Freezes or wakes a sentinel.
    pub fn freeze_sentinel(&mut self, which: usize, frozen: bool) {
        let process = &mut self.sentinels[which].process;
        if frozen { process.freeze() } else { process.wake() }
    }

    /// Ends a sentinel for good.
    pub fn kill_sentinel(&mut self, which: usize) {
        self.sentinels[which].process.kill();
    }

    /// Every sentinel knows the replica and the other sentinels, so that a failover may begin.
    async fn agreed(&self, sentinels: usize) {
        for sentinel in &self.sentinels {
            eventually("the sentinels know all", SET_UP, async || {
                let told = sentinel.client.try_command(&["SENTINEL", "MASTER", NAME]).await;
                let told = told.map_err(|err| err.to_string())?;
                let parts = told.array().unwrap_or_default();
                let field = |name: &str| {
                    let at = parts.iter().position(|part| part.text() == Some(name))?;
                    parts.get(at + 1)?.text()?.parse::<usize>().ok()
                };
                let known = (field("num-slaves"), field("num-other-sentinels"));
                if known == (Some(1), Some(sentinels - 1)) {
                    Ok(())
                } else {
                    Err(format!("{known:?}"))
                }
            })
            .await;
        }
    }
}

impl Watcher {
    async fn start(binary: &Path, primary: u16, quorum: usize) -> Self {
        let (dir, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\n\
             sentinel monitor {NAME} 127.0.0.1 {primary} {quorum}\n\
             sentinel down-after-milliseconds {NAME} {}\nsentinel failover-timeout {NAME} {}\n",
            dir.path().display(),
            DOWN_AFTER.as_millis(),
            FAILOVER.as_millis(),
        );
        let path = dir.path().join("sentinel.conf");
        fs::write(&path, settings).expect("a settings file");
        let arguments = [path.as_os_str(), "--sentinel".as_ref()];
        let process = Process::start(binary, &arguments, &[]);
        let client = Client::new(port);
        eventually("a sentinel answers", SET_UP, async || {
            client.try_command(&["PING"]).await.map(drop)
        })
        .await;
        // One that was held up for two seconds would do nothing for the next thirty: a busy machine is no fault of its own.
        let told = client.command(&["SENTINEL", "DEBUG", "tilt-trigger", "60000"]).await;
        assert_eq!(told.text(), Some("OK"), "{told:?}");
        Self { process, client, port, _dir: dir }
    }
}

/// What a server is told so that others know it by another port.
fn announced(port: u16) -> Vec<String> {
    let port = port.to_string();
    // A full copy begins at once.
    [
        "--replica-announce-ip",
        "127.0.0.1",
        "--replica-announce-port",
        &port,
        "--repl-diskless-sync-delay",
        "0",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn replica_of(port: u16) -> Vec<String> {
    vec!["--replicaof".to_owned(), format!("127.0.0.1 {port}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frozen_primary_is_replaced_and_comes_back_as_a_replica() {
        let group = Sentinel::start(1).await;
        group.promoted(0, SET_UP).await;
        group.server(0).command(&["SET", "key", "value"]).await;
        assert_eq!(group.server(0).command(&["WAIT", "1", "5000"]).await.int(), Some(1));
        group.server(0).pause();
        group.promoted(1, SET_UP).await;
        assert_eq!(group.server(1).command(&["GET", "key"]).await, Value::from("value"));
        group.server(0).resume();
        group.replicating(1).await;
        let refused = group.server(0).command(&["SET", "key", "other"]).await;
        assert!(
            matches!(&refused, Value::Error(text) if text.starts_with("READONLY")),
            "{refused:?}"
        );
    }
}
