use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

const REDIS: &str = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0";
const OLD_REDIS: &str =
    "Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0";
const VALKEY: &str = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0";

/// Folders with programs in them, and an empty cache.
struct Machine {
    root: TempDir,
    said: Vec<String>,
}

impl Machine {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), said: Vec::new() }
    }

    fn path(&self, place: &str) -> PathBuf {
        self.root.path().join(place)
    }

    /// Puts a program there that prints one line.
    fn program(&self, place: &str, prints: &str) -> PathBuf {
        let path = self.path(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\necho '{prints}'\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn resolver(&self, explicit: Option<PathBuf>, folders: &[&str]) -> Resolver {
        let search_path = env::join_paths(folders.iter().map(|folder| self.path(folder))).unwrap();
        Resolver { explicit, search_path, cache: self.path("cache") }
    }

    fn resolve(
        &mut self,
        explicit: Option<PathBuf>,
        folders: &[&str],
    ) -> Result<Found, Unresolved> {
        let resolver = self.resolver(explicit, folders);
        resolver.resolve(&mut |line| self.said.push(line.to_owned()))
    }
}

#[test]
fn an_explicit_binary_wins_over_the_path() {
    let mut machine = Machine::new();
    let named = machine.program("own/my-redis", REDIS);
    machine.program("bin/valkey-server", VALKEY);
    let found = machine.resolve(Some(named.clone()), &["bin"]).unwrap();
    assert_eq!(
        found,
        Found { path: named, kind: Kind::Redis, version: Version(7, 0, 15), how: How::Explicit }
    );
}

#[test]
fn an_explicit_binary_that_is_of_no_use_is_not_replaced_by_another() {
    let mut machine = Machine::new();
    machine.program("bin/valkey-server", VALKEY);
    let old = machine.program("own/redis-server", OLD_REDIS);
    for named in
        [machine.path("own/nothing"), machine.program("own/cat", "cat (GNU coreutils) 9.1"), old]
    {
        let refused = machine.resolve(Some(named.clone()), &["bin"]).unwrap_err();
        assert!(
            matches!(&refused, Unresolved::Explicit { path, .. } if *path == named),
            "{refused}"
        );
        assert!(refused.to_string().contains("redis.url"), "{refused}");
    }
    assert_eq!(machine.said, Vec::<String>::new());
}

#[test]
fn the_path_is_searched_in_its_order_and_valkey_is_preferred() {
    let mut machine = Machine::new();
    machine.program("first/redis-server", REDIS);
    let valkey = machine.program("second/valkey-server", VALKEY);
    machine.program("third/valkey-server", "Valkey server v=9.0.0");
    let found = machine.resolve(None, &["first", "second", "third"]).unwrap();
    assert_eq!((found.path, found.kind, found.how), (valkey, Kind::Valkey, How::SearchPath));
    let last = machine.said.last().unwrap();
    assert!(last.starts_with("using Valkey 8.0.1 (from PATH): "), "{last}");
}

#[test]
fn servers_that_are_too_old_are_skipped_and_it_says_so() {
    let mut machine = Machine::new();
    machine.program("first/redis-server", OLD_REDIS);
    let newer = machine.program("second/redis-server", REDIS);
    assert_eq!(machine.resolve(None, &["first", "second"]).unwrap().path, newer);
    let skipped = machine.said.first().unwrap();
    assert!(
        skipped.contains("first/redis-server")
            && skipped.ends_with("is Redis 6.2.14, older than 7.0.0"),
        "{skipped}"
    );
}

#[test]
fn with_nothing_to_find_or_fetch_with_one_line_says_what_to_do() {
    let mut machine = Machine::new();
    let refused = machine.resolve(None, &[]).unwrap_err().to_string();
    for word in [
        "no python3 in PATH",
        "apt install redis-server",
        "brew install valkey",
        "HOLDFAST_REDIS_URL",
    ] {
        assert!(refused.contains(word), "{word} is missing in: {refused}");
    }
    assert_eq!(refused.lines().count(), 1);
    assert_eq!(machine.said, Vec::<String>::new(), "nothing was fetched, so nothing is announced");
}

#[test]
fn a_relative_entry_of_the_path_is_never_run_from() {
    let search_path = OsString::from(":.:relative");
    assert_eq!(all_in(&search_path, "Cargo.toml"), Vec::<PathBuf>::new());
}

/// A folder whose data that server wrote.
fn written_by(machine: &Machine, binary: &Path) -> PathBuf {
    let folder = machine.path("data");
    fs::create_dir_all(&folder).unwrap();
    let (kind, version) = probe(binary).unwrap();
    WrittenBy { kind, version, path: binary.to_owned() }.leave(&folder).unwrap();
    folder
}

#[test]
fn a_folder_is_opened_by_the_server_that_wrote_it_whatever_is_in_the_path_by_now() {
    let mut machine = Machine::new();
    let wrote = machine.program("cache/any/valkey-server", VALKEY);
    machine.program("bin/redis-server", REDIS);
    machine.program("bin/valkey-server", "Valkey server v=9.1.2");
    let folder = written_by(&machine, &wrote);
    let resolver = machine.resolver(None, &["bin"]);
    let found = resolver.resolve_for(&folder, &mut |line| machine.said.push(line.to_owned()));
    let found = found.unwrap();
    assert_eq!((found.path, found.how), (wrote, How::Before));
    assert_eq!(machine.said.len(), 1, "{:?}", machine.said);
}

#[test]
fn a_newer_server_of_the_same_kind_may_go_on_where_another_left() {
    let mut machine = Machine::new();
    let wrote = machine.program("cache/any/valkey-server", VALKEY);
    let folder = written_by(&machine, &wrote);
    fs::remove_file(wrote).unwrap();
    machine.program("bin/redis-server", REDIS);
    let newer = machine.program("other/valkey-server", "Valkey server v=9.1.2");
    for named in [None, Some(newer.clone())] {
        let resolver = machine.resolver(named, &["bin", "other"]);
        let found = resolver.resolve_for(&folder, &mut |line| machine.said.push(line.to_owned()));
        assert_eq!(found.unwrap().path, newer);
    }
}

#[test]
fn a_server_of_another_kind_or_an_older_one_is_refused_found_or_named() {
    let machine = Machine::new();
    let wrote = machine.program("cache/any/valkey-server", VALKEY);
    let folder = written_by(&machine, &wrote);
    fs::remove_file(&wrote).unwrap();
    for banner in [REDIS, "Valkey server v=7.2.5", "Redis server v=8.2.3"] {
        let other = machine.program("bin/redis-server", banner);
        for named in [None, Some(other.clone())] {
            let resolver = machine.resolver(named, &["bin"]);
            let refused = resolver.resolve_for(&folder, &mut |_| {}).unwrap_err();
            assert!(matches!(refused, Unresolved::CannotRead { .. }), "{refused}");
            let told = refused.to_string();
            for word in ["Valkey 8.0.1", wrote.to_str().unwrap(), other.to_str().unwrap()] {
                assert!(told.contains(word), "{word} is missing in: {told}");
            }
        }
    }
}

#[test]
fn a_folder_without_a_note_takes_any_server() {
    let machine = Machine::new();
    let found = machine.program("bin/redis-server", REDIS);
    let resolver = machine.resolver(None, &["bin"]);
    let taken = resolver.resolve_for(&machine.path("data"), &mut |_| {}).unwrap();
    assert_eq!((taken.path, taken.how), (found, How::SearchPath));
}
