//! Secrets: files that hold one, and the words themselves, which no output shows.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::given::Given;
use super::value::Setting;
use crate::unread;

/// The longest secret, in bytes: what is no file at all may never end.
const LONGEST: u64 = 64 << 10;

/// The path of a file that holds a secret and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile(PathBuf);

impl SecretFile {
    /// A file that holds a secret.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the secret. Line ends after it, as editors leave them, are not part of it.
    pub fn read(&self) -> Result<Secret, SecretError> {
        let at = |reason| SecretError { path: self.0.clone(), reason };
        let mut text = String::new();
        let read =
            File::open(&self.0).and_then(|it| it.take(LONGEST + 1).read_to_string(&mut text));
        match read {
            Err(err) => return Err(at(Unreadable::Io(err.kind()))),
            Ok(length) if length as u64 > LONGEST => return Err(at(Unreadable::Long)),
            Ok(_) => {}
        }
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(at(Unreadable::Empty)),
            text if text.chars().any(char::is_control) => Err(at(Unreadable::Control)),
            text => Ok(Secret(text.to_owned())),
        }
    }
}

impl Setting for SecretFile {
    const RULE: &'static str = "must be the path of a file that holds the secret";

    fn read(given: &Given) -> Option<Self> {
        PathBuf::read(given).map(Self)
    }

    fn write(&self) -> String {
        self.0.write()
    }
}

/// A secret. It is shown nowhere, and compares with nothing.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, for whoever has to present it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A file that gives no secret.
#[derive(Debug, thiserror::Error)]
#[error("{} {}", path.display(), reason)]
pub struct SecretError {
    path: PathBuf,
    reason: Unreadable,
}

impl SecretError {
    /// The rule that it breaks, for whoever names the file otherwise.
    pub fn rule(&self) -> String {
        self.reason.to_string()
    }
}

#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("can't be read: {}", unread::in_words(*.0))]
    Io(io::ErrorKind),
    #[error("must hold a secret: it is above 64 KiB")]
    Long,
    #[error("must hold a secret: it is empty")]
    Empty,
    #[error("must hold a secret in one line, without control characters")]
    Control,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, SecretFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, text).unwrap();
        (folder, SecretFile::new(path))
    }

    #[test]
    fn the_line_end_of_an_editor_is_no_part_of_a_secret() {
        for text in ["S3CRET", "S3CRET\n", "S3CRET\r\n", "S3CRET\n\n"] {
            assert_eq!(file(text).1.read().unwrap().expose(), "S3CRET");
        }
        assert_eq!(file(" S3CRET \n").1.read().unwrap().expose(), " S3CRET ");
    }

    #[test]
    fn a_file_without_one_secret_is_told_by_its_path_alone() {
        for text in ["", "\n", "S3CRET\nS3CRET2\n"] {
            let (_folder, file) = file(text);
            let told = file.read().unwrap_err().to_string();
            assert!(told.contains("secret must hold a secret"), "{told}");
            assert!(!told.contains("S3CRET"), "{told}");
        }
        let told = SecretFile::new("/dev/zero").read().unwrap_err().to_string();
        assert_eq!(told, "/dev/zero must hold a secret: it is above 64 KiB");
        let told = SecretFile::new("/nowhere/secret").read().unwrap_err().to_string();
        assert_eq!(told, "/nowhere/secret can't be read: no such file");
    }

    #[test]
    fn a_secret_is_shown_nowhere() {
        assert_eq!(format!("{:?}", Secret::from("S3CRET".to_owned())), "***");
    }
}
