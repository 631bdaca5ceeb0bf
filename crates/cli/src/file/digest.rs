//! The name of a file: the first 16 hex digits of its SHA-256.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::lines::Lines;
use crate::failure::Failure;

/// A file as its bytes name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The first 16 hex digits of its SHA-256.
    pub(super) name: String,
    /// How many lines hold something.
    pub(super) requests: u64,
}

impl Named {
    /// Reads a file to its end.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |err| Failure::of_read(path.display(), &err);
        // A pipe can be read once only, and its lines are named by what comes behind them.
        if !path.metadata().map_err(failed)?.is_file() {
            let rule = "must be a file: its digest, which names its requests, is made before they are sent";
            return Err(Failure::Input {
                place: path.display().to_string(),
                rule: rule.to_owned(),
            });
        }
        let mut lines = open(path).map_err(failed)?;
        let mut requests = 0;
        while lines.next().map_err(failed)?.is_some() {
            requests += 1;
        }
        Ok(Self { name: name(lines), requests })
    }
}

/// Opens a file for reading its lines, with its digest made on the way.
pub(super) fn open(path: &Path) -> io::Result<Lines<BufReader<Hashing<File>>>> {
    let hashing = Hashing { reader: File::open(path)?, hash: Sha256::new() };
    Ok(Lines::new(BufReader::with_capacity(64 << 10, hashing)))
}

/// The name of what was read, which is the whole file when its last line was.
pub(super) fn name(lines: Lines<BufReader<Hashing<File>>>) -> String {
    let digest = lines.into_inner().into_inner().hash.finalize();
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Digests what is read.
pub(super) struct Hashing<R> {
    reader: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_exact_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        std::fs::write(&path, "abc").unwrap();
        let expected = Named { name: "ba7816bf8f01cfea".to_owned(), requests: 1 };
        assert_eq!(Named::read(&path).unwrap(), expected);
        std::fs::write(&path, "abc\n").unwrap();
        assert_ne!(Named::read(&path).unwrap().name, expected.name, "a line end counts");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Named::read(folder.path()), Err(Failure::Input { .. })));
        let missing = Named::read(&folder.path().join("none"));
        assert!(matches!(missing, Err(Failure::Read { .. })));
    }
}
