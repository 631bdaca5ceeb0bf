//! Files of the settings that are read again when they change: keys, certificates.
//!
//! Their content is compared, not their times: a mounted secret of Kubernetes changes by a link that is
//! turned to another folder, and an editor may write twice within one tick of the clock of the files.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_core::metrics;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::{Seldom, unread};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is told that they can't be used, while nothing else changes.
const TELL_EVERY: Duration = Duration::from_secs(600);

/// More is no file of keys and no certificate.
const LONGEST: u64 = 4 << 20;

/// Makes what is used out of the contents of the files, in their order; else says which rule is broken.
type Make<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, Unusable> + Send + Sync>;

/// One or more files that belong together, and what they held when they last made sense.
pub struct Reread<T> {
    /// Each by the setting that names it. The first is the label of the metric.
    files: Vec<(&'static str, PathBuf)>,
    make: Make<T>,
    current: Mutex<(Vec<Vec<u8>>, Arc<T>)>,
}

/// A file that can't be used. Its content is not told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {rule}")]
pub struct Unusable {
    /// The setting that names it.
    pub setting: &'static str,
    /// The rule that it breaks.
    pub rule: String,
}

impl Unusable {
    /// A file that breaks a rule.
    pub fn new(setting: &'static str, rule: impl Into<String>) -> Self {
        Self { setting, rule: rule.into() }
    }
}

impl<T: Send + Sync + 'static> Reread<T> {
    /// Reads the files for the first time.
    pub fn open(
        files: Vec<(&'static str, PathBuf)>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, Unusable> + Send + Sync + 'static,
    ) -> Result<Self, Unusable> {
        let contents = read_all(&files)?;
        let made = Arc::new(make(&contents)?);
        Ok(Self { files, make: Box::new(make), current: Mutex::new((contents, made)) })
    }

    /// What they held when they last made sense.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.lock().1)
    }

    /// Reads them again; true if something changed. Blocks on the file system.
    ///
    /// On an error, what was read before stays in force.
    pub fn look(&self) -> Result<bool, Unusable> {
        let contents = read_all(&self.files)?;
        if contents == self.lock().0 {
            return Ok(false);
        }
        let made = Arc::new((self.make)(&contents)?);
        *self.lock() = (contents, made);
        Ok(true)
    }

    /// Looks at them again and again until `stop`; tells loudly what can't be used.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) -> Result<(), Infallible> {
        let mut wrong = None;
        let mut seldom = Seldom::new(TELL_EVERY);
        let label = self.files.first().map_or("none", |(setting, _)| *setting);
        metrics::file_stale(label, false);
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = ticks.tick() => {}
            }
            let this = Arc::clone(&self);
            // Fails only while the runtime ends.
            let Ok(looked) = spawn_blocking(move || this.look()).await else { continue };
            metrics::file_stale(label, looked.is_err());
            match looked {
                Ok(changed) => {
                    let was_wrong = wrong.take().is_some();
                    if changed || was_wrong {
                        info!(setting = label, "took what the file holds now");
                    }
                }
                Err(err) => {
                    if wrong.as_ref() != Some(&err) {
                        seldom = Seldom::new(TELL_EVERY);
                    }
                    if seldom.now().is_some() {
                        error!(setting = err.setting, error = err.rule, "{STALE}");
                    }
                    wrong = Some(err);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Vec<u8>>, Arc<T>)> {
        // Whole in any case: it is only ever replaced in one step.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const STALE: &str = "a file that was changed can't be used: what it held before stays in force";

impl<T> fmt::Debug for Reread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reread").field("files", &self.files).finish_non_exhaustive()
    }
}

fn read_all(files: &[(&'static str, PathBuf)]) -> Result<Vec<Vec<u8>>, Unusable> {
    files.iter().map(|(setting, path)| read(setting, path)).collect()
}

/// The content of a file.
pub(crate) fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, Unusable> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut content));
    match read {
        Err(err) => {
            Err(Unusable::new(setting, format!("can't be read: {}", unread::in_words(err.kind()))))
        }
        Ok(length) if length as u64 > LONGEST => Err(Unusable::new(setting, "is above 4 MiB")),
        Ok(_) => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn open(paths: Vec<PathBuf>) -> Result<Reread<String>, Unusable> {
        let files = paths.into_iter().map(|path| ("a_file", path)).collect();
        Reread::open(files, |contents| {
            let text = String::from_utf8(contents.concat()).unwrap();
            if text.contains("bad") { Err(Unusable::new("a_file", "is bad")) } else { Ok(text) }
        })
    }

    const GONE: &str = "a_file can't be read: no such file";

    #[test]
    fn what_a_file_held_stays_in_force_while_it_is_broken_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(open(vec![path.clone()]).unwrap_err().to_string(), GONE);
        fs::write(&path, "bad").unwrap();
        assert_eq!(open(vec![path.clone()]).unwrap_err().to_string(), "a_file is bad");

        fs::write(&path, "one").unwrap();
        let file = open(vec![path.clone()]).unwrap();
        assert_eq!((file.look(), file.current().as_str()), (Ok(false), "one"));
        fs::write(&path, "two").unwrap();
        assert_eq!((file.look(), file.current().as_str()), (Ok(true), "two"));
        fs::write(&path, "bad").unwrap();
        assert!(file.look().is_err());
        fs::remove_file(&path).unwrap();
        assert_eq!(file.look().unwrap_err().to_string(), GONE);
        assert_eq!(file.current().as_str(), "two");
        fs::write(&path, "two").unwrap();
        assert_eq!(file.look(), Ok(false));
        let long = File::create(&path).unwrap();
        long.set_len(LONGEST + 1).unwrap();
        assert_eq!(file.look().unwrap_err().to_string(), "a_file is above 4 MiB");
    }

    /// The way in which Kubernetes replaces a mounted secret: the link of all links is turned.
    #[test]
    fn files_behind_a_link_that_is_turned_are_read_together() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let version = |name: &str, text: &str| {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("a"), text).unwrap();
            fs::write(root.join(name).join("b"), "-").unwrap();
        };
        let turn = |name: &str| {
            symlink(name, root.join("..next")).unwrap();
            fs::rename(root.join("..next"), root.join("..data")).unwrap();
        };
        version("..1", "one");
        turn("..1");
        for name in ["a", "b"] {
            symlink(Path::new("..data").join(name), root.join(name)).unwrap();
        }
        let files = open(vec![root.join("a"), root.join("b")]).unwrap();
        assert_eq!(files.current().as_str(), "one-");
        version("..2", "two");
        turn("..2");
        assert_eq!((files.look(), files.current().as_str()), (Ok(true), "two-"));
    }
}
