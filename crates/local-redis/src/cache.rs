//! Where fetched servers are kept.

use std::env;
use std::path::{Path, PathBuf};

/// The folder in which a fetched server is kept, if the caller names none: `local-redis` in the target folder that
/// the running binary was built into, else `~/.cache/holdfast/local-redis`. `None` if there is neither.
pub fn default_cache() -> Option<PathBuf> {
    let home = env::home_dir().filter(|home| home.is_absolute());
    cache_for(env::current_exe().ok().as_deref(), home.as_deref())
}

fn cache_for(exe: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    // Cargo marks its target folders with both files.
    let is_target =
        |dir: &&Path| dir.join("CACHEDIR.TAG").is_file() && dir.join(".rustc_info.json").is_file();
    let target = exe.and_then(|exe| exe.ancestors().find(is_target));
    let kept = target.map(|target| target.join("local-redis"));
    kept.or_else(|| Some(home?.join(".cache/holdfast/local-redis")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_binary_in_a_target_folder_keeps_its_server_there() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        let exe = target.join("debug/deps/some-test");
        fs::create_dir_all(&target).unwrap();
        let home = Path::new("/home/somebody");
        let in_home = home.join(".cache/holdfast/local-redis");
        assert_eq!(
            cache_for(Some(&exe), Some(home)),
            Some(in_home),
            "a folder named target is not enough"
        );

        for mark in ["CACHEDIR.TAG", ".rustc_info.json"] {
            fs::write(target.join(mark), "").unwrap();
        }
        assert_eq!(cache_for(Some(&exe), Some(home)), Some(target.join("local-redis")));
    }

    #[test]
    fn an_installed_binary_keeps_its_server_in_the_home_folder_if_there_is_one() {
        let exe = Path::new("/usr/bin/holdfast");
        let kept = cache_for(Some(exe), Some(Path::new("/home/somebody")));
        assert_eq!(kept, Some(PathBuf::from("/home/somebody/.cache/holdfast/local-redis")));
        assert_eq!(cache_for(Some(exe), None), None);
    }
}
