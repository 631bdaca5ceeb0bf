//! Which server wrote the data of a folder: a note beside the data, read before the next start.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::resolve::Found;
use crate::version::{Kind, Version, parse_version};

/// The note's file in the folder: one line, `Valkey 9.1.2 /path/of/valkey-server`.
const FILE: &str = "written-by";

/// The server that wrote a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenBy {
    /// Which server it was.
    pub kind: Kind,
    /// Its version.
    pub version: Version,
    /// Where its binary was.
    pub path: PathBuf,
}

impl fmt::Display for WrittenBy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} at {}", self.kind, self.version, self.path.display())
    }
}

impl From<&Found> for WrittenBy {
    fn from(found: &Found) -> Self {
        Self { kind: found.kind, version: found.version, path: found.path.clone() }
    }
}

impl WrittenBy {
    /// The folder's note. One that nobody can read says as little as none.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(FILE)).ok()?;
        let mut words = text.trim_end_matches('\n').splitn(3, ' ');
        let kind = Kind::named(words.next()?)?;
        let version = parse_version(words.next()?)?;
        Some(Self { kind, version, path: PathBuf::from(words.next()?) })
    }

    /// Leaves the note, whole or not at all.
    pub(crate) fn leave(&self, folder: &Path) -> io::Result<()> {
        let beside = folder.join(format!("{FILE}.new"));
        let Self { kind, version, path } = self;
        fs::write(&beside, format!("{kind} {version} {}\n", path.display()))?;
        fs::rename(beside, folder.join(FILE))
    }

    /// Whether that server can be trusted to read the data: the same kind, and not an older one. An older one may not
    /// know the form of the files, and the two kinds go ways of their own. Patches of one minor version share the form, so
    /// that one can be taken back.
    pub(crate) fn is_read_by(&self, found: &Found) -> bool {
        let minor = |Version(major, minor, _)| (major, minor);
        found.kind == self.kind && minor(found.version) >= minor(self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::How;

    #[test]
    fn patches_of_one_minor_version_read_each_others_data() {
        let by = WrittenBy { kind: Kind::Valkey, version: Version(9, 1, 3), path: "/x".into() };
        let reads = |kind, version| {
            by.is_read_by(&Found { kind, version, path: "/y".into(), how: How::Before })
        };
        assert!(reads(Kind::Valkey, Version(9, 1, 2)) && reads(Kind::Valkey, Version(10, 0, 0)));
        assert!(!reads(Kind::Valkey, Version(9, 0, 9)) && !reads(Kind::Redis, Version(9, 1, 3)));
    }

    #[test]
    fn a_note_is_read_as_it_was_left_and_nonsense_is_no_note() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(WrittenBy::read(folder.path()), None);
        let note = WrittenBy {
            kind: Kind::Valkey,
            version: Version(9, 1, 2),
            path: "/a folder/valkey-server".into(),
        };
        note.leave(folder.path()).unwrap();
        assert_eq!(WrittenBy::read(folder.path()), Some(note));
        for nonsense in ["", "Valkey", "Valkey 9.1.2", "Valkey nine /x", "KeyDB 6.3.4 /x", "\0"] {
            fs::write(folder.path().join(FILE), nonsense).unwrap();
            assert_eq!(WrittenBy::read(folder.path()), None, "{nonsense:?}");
        }
    }
}
