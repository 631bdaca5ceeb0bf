//! The lines of a file: LF ends one, with or without a CR before it, and nothing else does.

use std::io::{self, BufRead, Read};

/// The longest line that is taken. Bodies end long before, at the queue's `body_limit`.
const LONGEST: u64 = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line that holds something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its place in the file, from 1, blank lines counted.
    pub(super) number: u64,
    /// Its bytes without its end; none if there are too many.
    pub(super) bytes: Option<Vec<u8>>,
}

/// Reads a file line by line. One line is in memory at a time.
pub(super) struct Lines<R> {
    reader: R,
    number: u64,
    longest: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, number: 0, longest: LONGEST }
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let most = self.longest + 1;
            if self.reader.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let number = self.number;
            if !bytes.ends_with(b"\n") && bytes.len() as u64 == most {
                self.reader.skip_until(b'\n')?;
                return Ok(Some(Line { number, bytes: None }));
            }
            let text = bare(&bytes, number == 1);
            if !text.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(Line { number, bytes: Some(text.to_vec()) }));
            }
        }
    }

    /// What is left of the reader.
    pub(super) fn into_inner(self) -> R {
        self.reader
    }
}

/// A line without its end and, if it is the first, without the mark that some editors put there.
fn bare(bytes: &[u8], is_first: bool) -> &[u8] {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if is_first { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, longest: u64) -> Vec<(u64, Option<String>)> {
        let mut lines = Lines { longest, ..Lines::new(text.as_bytes()) };
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push((line.number, line.bytes.map(|bytes| String::from_utf8(bytes).unwrap())));
        }
        read
    }

    fn line(number: u64, text: &str) -> (u64, Option<String>) {
        (number, Some(text.to_owned()))
    }

    #[test]
    fn a_mark_at_the_start_carriage_returns_and_blank_lines_are_no_part_of_a_line() {
        let read = read("\u{feff}{1}\r\n\r\n{2}\r\n   \r\n\t\n{3}", 100);
        assert_eq!(read, [line(1, "{1}"), line(3, "{2}"), line(6, "{3}")]);
    }

    #[test]
    fn nothing_but_a_line_feed_ends_a_line() {
        let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\rg";
        assert_eq!(read(&format!("{text}\nh\n"), 100), [line(1, text), line(2, "h")]);
    }

    #[test]
    fn an_empty_file_and_one_of_blank_lines_hold_nothing() {
        for text in ["", "\n", "\r\n\r\n", "\u{feff}", "\u{feff}\n  "] {
            assert_eq!(read(text, 100), [], "{text:?}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let read = read("12345\n1234567\n123\n12345678", 5);
        assert_eq!(read, [line(1, "12345"), (2, None), line(3, "123"), (4, None)]);
    }

    #[test]
    fn the_longest_line_may_have_its_end() {
        assert_eq!(read("12345\n", 5), [line(1, "12345")]);
        assert_eq!(read("12345", 5), [line(1, "12345")]);
    }
}
