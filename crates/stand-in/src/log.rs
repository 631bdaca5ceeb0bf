//! The journal as a file of JSON lines: one when a request came, one when it ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tracing::warn;

use crate::arrival::{Arrival, End, EndLine};

/// A log file. Written in place, without a task of its own: it is for tests, and a line is one short `write`.
pub(crate) struct Log {
    /// None after a write failed: half a log is said once and not continued with a hole.
    file: Mutex<Option<File>>,
}

/// The second line of an arrival.
#[derive(Serialize)]
struct Ended {
    number: u64,
    end: EndLine,
}

impl Log {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(Some(file)) })
    }

    pub(crate) fn arrived(&self, arrival: &Arrival) {
        self.write(&arrival.line(true));
    }

    pub(crate) fn ended(&self, number: u64, end: &End) {
        self.write(&Ended { number, end: end.line(true) });
    }

    fn write(&self, line: &impl Serialize) {
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = slot.as_mut() else { return };
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            file.write_all(&line)
        });
        if let Err(error) = written {
            warn!(%error, "the stand-in's log ends here");
            *slot = None;
        }
    }
}
