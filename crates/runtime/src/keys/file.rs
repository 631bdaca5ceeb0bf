//! The file of keys: a line a key, blank lines and comments between them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use holdfast_core::counted;

use super::{Key, KeyLine};
use crate::reread::{Reread, Unusable};

/// The setting that names it.
pub const SETTING: &str = "keys_file";

/// The keys of a file, checked whole.
#[derive(Clone, Debug)]
pub struct KeyFile(Vec<KeyLine>);

/// What is wrong with one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFault {
    /// Which line, from 1.
    pub line: usize,
    /// The rule that it breaks.
    pub rule: String,
}

/// Everything that is wrong with a file, by line. Nothing of the file is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileError(pub Vec<LineFault>);

/// More faults are counted, not told.
const TOLD: usize = 10;

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, LineFault { line, rule }) in self.0.iter().take(TOLD).enumerate() {
            write!(f, "{}line {line} {rule}", if at == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => write!(f, ", and {}", counted(more, "more line", "more lines")),
        }
    }
}

impl std::error::Error for KeyFileError {}

/// Opens a file of keys that is read again when it changes.
pub fn open(path: &Path) -> Result<Reread<KeyFile>, Unusable> {
    let make = |contents: &[Vec<u8>]| {
        let content = contents.first().map_or(&[][..], Vec::as_slice);
        let rule = |faults| format!("must hold callers' keys: {faults}");
        KeyFile::read(content).map_err(|faults| Unusable::new(SETTING, rule(faults)))
    };
    Reread::open(vec![(SETTING, path.to_owned())], make)
}

impl KeyFile {
    /// Reads a file's content. One faulty line makes all of it unusable.
    ///
    /// A file without keys is good if a comment stands in it; an empty one is taken for a file
    /// that is just being written.
    pub fn read(content: &[u8]) -> Result<Self, KeyFileError> {
        let fault = |line, rule: &str| LineFault { line, rule: rule.to_owned() };
        let Ok(text) = std::str::from_utf8(content) else {
            let before = content.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            return Err(KeyFileError(vec![fault(
                before.matches('\n').count() + 1,
                "is not UTF-8",
            )]));
        };
        let (mut keys, mut faults) = (Vec::new(), Vec::new());
        let mut seen = BTreeMap::new();
        if text.trim().is_empty() {
            faults.push(fault(1, EMPTY));
        }
        for (at, line) in text.lines().enumerate() {
            let (number, line) = (at + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match KeyLine::read(line) {
                Err(rule) => faults.push(fault(number, rule)),
                Ok(key) => match seen.insert(key.hash.bytes(), number) {
                    Some(first) => {
                        let rule = format!("has the key of line {first} once more");
                        faults.push(LineFault { line: number, rule });
                    }
                    None => keys.push(key),
                },
            }
        }
        if faults.is_empty() { Ok(Self(keys)) } else { Err(KeyFileError(faults)) }
    }

    /// The line of a key, also of one that has expired.
    ///
    /// Every line is compared to its end, so the time tells nothing of how near a guess came.
    pub fn find(&self, key: &Key) -> Option<&KeyLine> {
        let hash = key.hash();
        let mut found = None;
        for line in &self.0 {
            if line.hash.is(&hash) {
                found = Some(line);
            }
        }
        found
    }

    /// Its lines, in their order.
    pub fn lines(&self) -> &[KeyLine] {
        &self.0
    }
}

const EMPTY: &str = "is all there is, and it is empty: a file without keys says so in a comment";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tenant: &str, key: &Key) -> String {
        format!("tenant={tenant} scopes=read sha256={}\n", key.hash())
    }

    #[test]
    fn keys_are_found_by_what_callers_present() {
        let keys = [Key::random(), Key::random(), Key::random()];
        let text = format!(
            "# two of one tenant, to rotate\r\n{}\n{}\n   # and\n{}",
            line("acme", &keys[0]),
            line("acme", &keys[1]),
            line("other", &keys[2]).trim_end()
        );
        let file = KeyFile::read(text.as_bytes()).unwrap();
        let tenants = keys.each_ref().map(|key| file.find(key).unwrap().tenant.as_str());
        assert_eq!(tenants, ["acme", "acme", "other"]);
        assert!(file.find(&Key::random()).is_none());
        assert_eq!(file.lines().len(), 3);
    }

    #[test]
    fn a_file_is_checked_whole_and_every_line_at_once() {
        let key = Key::random();
        let text = format!("{}oops\n\n{}tenant=x\n", line("a", &key), line("b", &key));
        let told = KeyFile::read(text.as_bytes()).unwrap_err();
        let lines: Vec<usize> = told.0.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 4, 5]);
        let told = told.to_string();
        assert!(told.contains("line 4 has the key of line 1 once more"), "{told}");
        let many = KeyFile::read("x\n".repeat(15).as_bytes()).unwrap_err().to_string();
        assert!(many.ends_with("and 5 more lines"), "{many}");
    }

    /// Where the time told the place, a caller could learn how many keys there are, and whether one was ever known.
    #[test]
    fn a_look_takes_as_long_wherever_the_key_stands_and_where_it_does_not() {
        let keys: Vec<Key> = (0..2_000).map(|_| Key::random()).collect();
        let text: String = keys.iter().map(|key| line("acme", key)).collect();
        let file = KeyFile::read(text.as_bytes()).unwrap();
        // The fastest of many: what else the machine does only makes it slower.
        let time = |key: &Key, found: bool| {
            let look = || {
                let since = std::time::Instant::now();
                assert_eq!(file.find(std::hint::black_box(key)).is_some(), found);
                since.elapsed()
            };
            (0..50).map(|_| look()).min().unwrap().as_nanos()
        };
        let times = [time(&keys[0], true), time(&keys[1_999], true), time(&Key::random(), false)];
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(*most < 10 * least, "{times:?} ns: first, last, unknown");
    }

    #[test]
    fn a_file_without_keys_says_so() {
        assert!(KeyFile::read(b"# nobody\n").unwrap().lines().is_empty());
        for empty in ["", "\n", "  \r\n\n"] {
            assert_eq!(KeyFile::read(empty.as_bytes()).unwrap_err().0[0].line, 1);
        }
        let told = KeyFile::read(b"# a\n# b\n\xff").unwrap_err();
        assert_eq!(told.to_string(), "line 3 is not UTF-8");
    }
}
