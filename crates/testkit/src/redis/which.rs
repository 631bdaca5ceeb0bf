//! Which server the tests run on: the first that is found, or the one that `HOLDFAST_TEST_SERVER` asks for, as
//! `redis-7.0`, `redis-8` or `valkey-9`. What is asked for and is not there is fetched; if that fails, so does the test.

use std::env;
use std::path::{Path, PathBuf};

use holdfast_local_redis::{Found, Kind, Resolver, Version, default_cache};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// Names the server of all tests. No setting of a role: processes are started without it.
const ASKED: &str = "HOLDFAST_TEST_SERVER";

/// The first version with all that some tests need: WAITAOF, for example.
const RECENT: Version = Version(7, 2, 0);

/// The server to run, looked for once a process.
pub(crate) async fn binary() -> &'static Path {
    static BINARY: OnceCell<Found> = OnceCell::const_new();
    &BINARY.get_or_init(async || blocking(usual).await).await.path
}

/// The same for what an old server lacks: the one that is fetched if the usual one is old, or may be.
pub(crate) async fn recent() -> PathBuf {
    static BINARY: OnceCell<Found> = OnceCell::const_new();
    BINARY.get_or_init(async || blocking(newer).await).await.path.clone()
}

/// A server of this kind and version, for what others can't do: TLS, for example.
pub(crate) async fn of(asked: &'static str) -> PathBuf {
    spawn_blocking(|| find(asked)).await.expect("a server is found").path
}

async fn blocking(find: fn() -> Found) -> Found {
    spawn_blocking(find).await.expect("a server is found")
}

fn usual() -> Found {
    match asked() {
        Some(asked) => find(&asked),
        None => {
            let found = resolver().resolve(&mut |line| eprintln!("{line}"));
            found.unwrap_or_else(|err| panic!("{err}"))
        }
    }
}

fn find(asked: &str) -> Found {
    let say = &mut |line: &str| eprintln!("{line}");
    let found = resolver().resolve_which(&mut |found| is(found, asked), say);
    found.unwrap_or_else(|err| panic!("no {asked}: {err}"))
}

fn newer() -> Found {
    let is_recent = |found: &Found| found.kind == Kind::Valkey || found.version >= RECENT;
    if asked().is_some() {
        let found = usual();
        if is_recent(&found) {
            return found;
        }
    }
    let found = resolver().fetch(&mut |line| eprintln!("{line}"));
    found.unwrap_or_else(|err| panic!("{err}"))
}

fn asked() -> Option<String> {
    env::var(ASKED).ok().filter(|asked| !asked.is_empty())
}

/// Whether a server is the one asked for: `redis-7.0` is any 7.0, `redis-7` any 7.
fn is(found: &Found, asked: &str) -> bool {
    let Found { kind, version, .. } = found;
    let whole = format!("{kind}-{version}.").to_lowercase();
    whole.starts_with(&format!("{}.", asked.to_lowercase()))
}

fn resolver() -> Resolver {
    let search_path = env::var_os("PATH").unwrap_or_default();
    let cache = default_cache().expect("a folder for the server");
    Resolver { explicit: None, search_path, cache }
}

#[cfg(test)]
mod tests {
    use holdfast_local_redis::How;

    use super::*;

    #[test]
    fn a_server_is_asked_for_by_as_much_of_its_version_as_matters() {
        let (path, version) = (PathBuf::from("x"), Version(8, 2, 3));
        let found = Found { path, kind: Kind::Redis, version, how: How::Cached };
        assert!(["redis-8", "redis-8.2", "Redis-8.2.3"].iter().all(|asked| is(&found, asked)));
        assert!(
            !["redis-7", "valkey-8", "redis-8.20", "redis"].iter().any(|asked| is(&found, asked))
        );
    }
}
