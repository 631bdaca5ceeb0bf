//! The settings files of the demo's processes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_runtime::{Environment, Problems, Settings};
use serde::Serialize;
use toml::{Table, Value};

use super::fleet::Plan;

/// The queue of the demo.
pub(crate) const QUEUE: &str = "default";
/// How many requests a worker has under way.
pub(crate) const SLOTS: usize = 8;

/// The slowest pass of a reclaimer.
const SLOWEST_PASS: Duration = Duration::from_secs(1);
/// Passes in a lease.
const PASSES: u32 = 6;

/// Reads a lease as the settings read it. Gives it, and how often a reclaimer is to pass.
pub(crate) fn timing(lease: &str) -> Result<(Duration, Duration), Problems> {
    let section = |field: &str, value: &str| {
        Value::from(Table::from_iter([(field.to_owned(), Value::from(value))]))
    };
    let file = Table::from_iter([
        ("worker".to_owned(), section("lease", lease)),
        ("reclaimer".to_owned(), section("every", "10ms")),
    ]);
    let settings = Settings::load(&file.to_string(), &Environment::default())?;
    let lease = settings.worker.lease;
    Ok((lease, (lease / PASSES).min(SLOWEST_PASS)))
}

/// A settings file as it is written; the same for all, but for the ops port, the name and the credential.
#[derive(Serialize)]
pub(crate) struct File {
    redis: Redis,
    producer: Producer,
    worker: Worker,
    reclaimer: Reclaimer,
    queues: BTreeMap<&'static str, Queue>,
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Serialize)]
struct Redis {
    url: String,
}

#[derive(Serialize)]
struct Producer {
    listen: SocketAddr,
    ops_listen: SocketAddr,
    /// Any free one: nobody operates a demo.
    operator_listen: SocketAddr,
}

#[derive(Serialize)]
struct Worker {
    ops_listen: SocketAddr,
    name: String,
    concurrency: usize,
    lease: String,
}

#[derive(Serialize)]
struct Reclaimer {
    ops_listen: SocketAddr,
    every: String,
}

#[derive(Serialize)]
struct Queue {
    target: String,
    credential_file: PathBuf,
}

impl File {
    /// The settings of a fleet whose API is at `api`; `for_role` makes them one role's.
    pub(crate) fn new(plan: &Plan<'_>, redis: String, api: SocketAddr) -> Self {
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        let worker = Worker {
            ops_listen: api,
            name: String::new(),
            concurrency: SLOTS,
            lease: millis(plan.lease),
        };
        let queue = Queue { target: plan.target.clone(), credential_file: PathBuf::new() };
        Self {
            redis: Redis { url: redis },
            producer: Producer {
                listen: api,
                ops_listen: api,
                operator_listen: SocketAddr::new(api.ip(), 0),
            },
            worker,
            reclaimer: Reclaimer { ops_listen: api, every: millis(plan.every) },
            queues: BTreeMap::from([(QUEUE, queue)]),
            folder: plan.folder.to_owned(),
        }
    }

    /// Makes it the settings of one role: its name, its ops port, and the credential that it shows to the gateway.
    pub(crate) fn for_role(&mut self, name: &str, ops: SocketAddr) {
        self.producer.ops_listen = ops;
        self.worker.ops_listen = ops;
        self.reclaimer.ops_listen = ops;
        name.clone_into(&mut self.worker.name);
        for queue in self.queues.values_mut() {
            queue.credential_file = self.folder.join(format!("{name}.credential"));
        }
    }

    /// Where the API listens.
    pub(crate) fn api(&self) -> SocketAddr {
        self.producer.listen
    }

    /// Where health and metrics of this role are.
    pub(crate) fn ops(&self) -> SocketAddr {
        self.worker.ops_listen
    }

    /// Where this role's credential lies.
    pub(crate) fn credential_file(&self) -> PathBuf {
        credential_file(&self.folder, &self.worker.name)
    }
}

fn credential_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.credential"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Server;

    #[test]
    fn a_lease_is_read_as_everywhere_and_passes_fit_into_it() {
        let (lease, every) = timing("3s").unwrap();
        assert_eq!((lease.as_millis(), every.as_millis()), (3_000, 500));
        assert_eq!(timing("60s").unwrap().1, SLOWEST_PASS);
        assert!(timing("3").unwrap_err().to_string().contains("worker.lease"));
        assert!(timing("3s\"\n[x]").is_err());
    }

    #[test]
    fn the_file_is_one_that_every_role_takes() {
        let server = Server { redis_server: None, search_path: None };
        let (lease, every) = timing("1s").unwrap();
        let folder = Path::new("/srv/a \"demo\"");
        let target = "http://127.0.0.1:7002".to_owned();
        let plan = Plan { folder, server: &server, target, lease, every };
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut file = File::new(&plan, "redis://127.0.0.1:7001".to_owned(), address(7003));
        file.for_role("worker-1", address(7004));
        let text = toml::to_string(&file).unwrap();
        let settings = Settings::load(&text, &Environment::default()).unwrap();
        assert_eq!(settings.producer.listen, address(7003));
        assert_eq!(settings.worker.ops_listen, address(7004));
        assert_eq!(settings.worker.name.as_deref(), Some("worker-1"));
        let credentials: Vec<_> = settings
            .queues
            .values()
            .map(|queue| queue.credentials.credential_file.clone())
            .collect();
        let path = credentials[0].as_ref().unwrap().path().to_owned();
        assert_eq!(path, file.credential_file());
    }
}
