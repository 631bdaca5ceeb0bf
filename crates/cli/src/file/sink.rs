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
    /// A file that still holds what it held before.
    Untouched(PathBuf, File),
    /// A file that holds lines of this run alone.
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

    /// Opens the file. What it holds stays until there is something to write: a run that fails before has nothing better.
    pub(super) fn open(&mut self) -> Result<(), Failure> {
        if let Self::Closed(path) = self {
            let file = File::options().create(true).write(true).truncate(false).open(&path);
            let file = file.map_err(|err| Failure::of_write(path.display(), &err))?;
            *self = Self::Untouched(std::mem::take(path), file);
        }
        Ok(())
    }

    /// Empties the file, once: what an earlier run wrote there comes again. To be called at a good end too, which may have
    /// written nothing.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        let Self::Untouched(path, file) = self else { return Ok(()) };
        // A pipe or a device has nothing to empty.
        let emptied =
            file.metadata().and_then(|it| if it.is_file() { file.set_len(0) } else { Ok(()) });
        emptied.map_err(|err| Failure::of_write(path.display(), &err))?;
        if let Self::Untouched(path, file) = std::mem::replace(self, Self::Nowhere) {
            *self = Self::Open(path, file);
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
        self.begin()?;
        match self {
            Self::Nowhere | Self::Closed(_) | Self::Untouched(..) => Ok(()),
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
