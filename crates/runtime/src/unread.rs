//! Why a file can't be read, in words that quote nothing of it.

use std::io::ErrorKind;

/// The kind of an error as people say it: the system's own text may hold what was read.
pub fn in_words(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::NotFound => "no such file".to_owned(),
        kind => kind.to_string(),
    }
}
