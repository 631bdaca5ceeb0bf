//! Where the output lines go.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::ended::OutputLine;
use crate::failure::Failure;
use crate::output::Output;

/// Where the output lines go: each whole and at once, so that what breaks off loses none.
#[derive(Debug)]
pub(super) enum Sink {
    /// Nobody wants them.
    Nowhere,
    /// Standard output.
    Stdout,
    /// A file that is yet to be opened.
    Closed(PathBuf),
    /// A file.
    Open(PathBuf, File),
}

impl Sink {
    pub(super) fn new(path: Option<&Path>) -> Self {
        match path {
            None => Self::Nowhere,
            Some(path) if path.as_os_str() == "-" => Self::Stdout,
            Some(path) => Self::Closed(path.to_owned()),
        }
    }

    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Makes the file, empty: what an earlier run wrote there comes again.
    pub(super) fn open(&mut self) -> Result<(), Failure> {
        if let Self::Closed(path) = self {
            let file =
                File::create(&path).map_err(|err| Failure::of_write(path.display(), &err))?;
            *self = Self::Open(std::mem::take(path), file);
        }
        Ok(())
    }

    /// Writes a line.
    pub(super) fn write(
        &mut self,
        line: &OutputLine<'_>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let json = || {
            let mut bytes = serde_json::to_vec(line)
                .map_err(|_| Failure::Nonsense("a result that can't be written as JSON"))?;
            bytes.push(b'\n');
            Ok::<_, Failure>(bytes)
        };
        match self {
            Self::Nowhere | Self::Closed(_) => Ok(()),
            Self::Stdout => {
                output.bytes(&json()?)?;
                output.finish()
            }
            Self::Open(path, file) => {
                file.write_all(&json()?).map_err(|err| Failure::of_write(path.display(), &err))
            }
        }
    }
}
