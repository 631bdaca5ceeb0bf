//! Roles as processes over one file of settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_testkit::{Http, Process, RedisServer, eventually, free_port};
use tempfile::TempDir;

/// How long a role may take to be ready.
const SOON: Duration = Duration::from_secs(30);

/// Which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Producer,
    Worker,
    Reclaimer,
}

/// The settings of all roles.
pub(crate) struct Fleet {
    http: Http,
    settings: PathBuf,
    _folder: TempDir,
}

impl Fleet {
    /// Settings for roles over this Redis: what is not said is as it comes.
    pub(crate) fn new(redis: &RedisServer, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bench.toml");
        let text = format!("[redis]\nurl = \"{}\"\n{settings}", redis.url());
        fs::write(&path, text).expect("a settings file");
        Self { http: Http::new(), settings: path, _folder: folder }
    }

    /// Starts one, and waits until it is ready.
    pub(crate) async fn start(&self, role: Role) -> Process {
        let ops = free_port();
        let here = |port: u16| format!("127.0.0.1:{port}");
        let (program, section) = match role {
            Role::Producer => (env!("CARGO_BIN_EXE_it-producer"), "PRODUCER"),
            Role::Worker => (env!("CARGO_BIN_EXE_it-worker"), "WORKER"),
            Role::Reclaimer => (env!("CARGO_BIN_EXE_it-reclaimer"), "RECLAIMER"),
        };
        let mut places = vec![(format!("HOLDFAST_{section}_OPS_LISTEN"), here(ops))];
        if role == Role::Producer {
            places.push(("HOLDFAST_PRODUCER_LISTEN".to_owned(), here(free_port())));
            places.push(("HOLDFAST_PRODUCER_OPERATOR_LISTEN".to_owned(), here(free_port())));
        }
        let env: Vec<_> =
            places.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let process = Process::start(program, &[Path::new("--config"), &self.settings], &env);
        let url = format!("http://{}/readyz", here(ops));
        eventually("the role is ready", SOON, async || {
            let asked = self.http.try_request("GET", &url, &[], "").await?;
            if asked.status == 200 { Ok(()) } else { Err(asked.text().to_owned()) }
        })
        .await;
        process
    }
}
