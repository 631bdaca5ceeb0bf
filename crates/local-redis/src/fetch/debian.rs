//! A server out of the distribution's own packages, unpacked into the cache and not installed: no root is needed, and
//! no service starts.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Fetch;
use crate::run::run;

const APT_LIMIT: Duration = Duration::from_secs(180);
const UNPACK_LIMIT: Duration = Duration::from_secs(60);

/// Runs the server with the libraries that came along. It finds its folder by itself, so that the folder can move.
const LAUNCHER: &str = r#"#!/bin/sh
root="${0%/*}/root"
LD_LIBRARY_PATH="$root/usr/lib/TRIPLET:$root/lib/TRIPLET${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
exec "$root/usr/bin/redis-server" "$@"
"#;

/// Fetches and unpacks the packages into `staging/kept`.
pub(super) fn fetch(
    with: &Fetch<'_>,
    staging: &Path,
    announce: &mut dyn FnMut(),
) -> Result<(), String> {
    with.tool("apt-get")?;
    with.tool("dpkg")?;
    announce();

    // The machine's package lists may be missing or out of date: then lists of our own are fetched, beside them.
    let lists = Lists(None);
    let downloaded = lists.download(with, staging).or_else(|_| {
        let lists = Lists(Some(staging.join("apt")));
        lists.update(with)?;
        lists.download(with, staging)
    })?;

    let kept = staging.join("kept");
    for package in downloaded {
        let mut unpack = with.tool("dpkg")?;
        unpack.arg("--extract").arg(package).arg(kept.join("root"));
        run(unpack, UNPACK_LIMIT)?;
    }
    write_launcher(&kept.join("redis-server")).map_err(|err| err.to_string())
}

fn write_launcher(path: &Path) -> io::Result<()> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    fs::write(path, LAUNCHER.replace("TRIPLET", &triplet))?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Package lists: the machine's, or a folder's.
struct Lists(Option<PathBuf>);

impl Lists {
    fn apt(&self, with: &Fetch<'_>) -> Result<Command, String> {
        let mut apt = with.tool("apt-get")?;
        apt.env("LC_ALL", "C").args(["--quiet", "--option", "Debug::NoLocking=1"]);
        if let Some(folder) = &self.0 {
            for (setting, place) in [("Dir::State::Lists", "lists"), ("Dir::Cache", "cache")] {
                apt.arg("--option").arg(format!("{setting}={}", folder.join(place).display()));
            }
        }
        Ok(apt)
    }

    fn update(&self, with: &Fetch<'_>) -> Result<(), String> {
        for place in ["lists/partial", "cache/archives/partial"] {
            let folder = self.0.as_ref().map(|folder| folder.join(place));
            folder.map_or(Ok(()), fs::create_dir_all).map_err(|err| err.to_string())?;
        }
        let mut update = self.apt(with)?;
        update.arg("update");
        run(update, APT_LIMIT).map(drop)
    }

    /// The server's package and what it needs beyond what is installed, as files.
    fn download(&self, with: &Fetch<'_>, staging: &Path) -> Result<Vec<PathBuf>, String> {
        let mut ask = self.apt(with)?;
        ask.args(["--simulate", "--no-install-recommends", "install", "redis-server"]);
        let mut packages = to_install(&run(ask, APT_LIMIT)?);
        if packages.is_empty() {
            // It is installed, but not where we looked.
            packages = vec!["redis-server".into(), "redis-tools".into()];
        }

        let folder = staging.join("packages");
        fs::create_dir_all(&folder).map_err(|err| err.to_string())?;
        let mut download = self.apt(with)?;
        download.arg("download").args(&packages).current_dir(&folder);
        run(download, APT_LIMIT)?;
        let files = fs::read_dir(&folder).map_err(|err| err.to_string())?;
        Ok(files.filter_map(|file| Some(file.ok()?.path())).collect())
    }
}

/// Reads the names out of the lines `Inst <name> (<version> …)` that a simulated installation prints.
fn to_install(simulated: &str) -> Vec<String> {
    let names =
        simulated.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_to_fetch_are_read_from_a_simulated_installation() {
        let simulated = "Reading package lists...\nInst liblzf1 (3.6-3 Debian:12 [amd64])\n\
            Inst redis-tools [5:7.0.1] (5:7.0.15-1 Debian:12 [amd64])\nConf liblzf1 (3.6-3 Debian:12 [amd64])\n";
        assert_eq!(to_install(simulated), ["liblzf1", "redis-tools"]);
    }
}
