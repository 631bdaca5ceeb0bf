//! Cuts a body into the texts of its items, however it is chopped up on its way: lines, or the elements of an array.
//!
//! Only what separates items is looked at. Whether an item is JSON is said by whoever reads it, so that a bad one spoils
//! no other. White space around an item, and a byte order mark before the first, are no part of any.

use bytes::{Buf, Bytes, BytesMut};

const MARK: &[u8] = b"\xef\xbb\xbf";

/// A place in a body; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// An item that came whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Where it begins.
    pub(crate) spot: Spot,
    /// Its text; none if that is longer than it may be.
    pub(crate) text: Option<Bytes>,
}

/// Why nothing more can be cut out of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The body ended in the midst of an array.
    #[error("the array is not closed: its last item was not taken")]
    Unclosed,
    /// There is more than the array.
    #[error("something stands behind the array")]
    Behind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Lines,
    Array,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of the mark have come, and nothing else.
    Mark(usize),
    /// Between items.
    Before,
    /// Behind the bracket that opens the array: there may be no item at all.
    Opened,
    /// In an item.
    Inside(Nesting),
    /// Behind the array.
    Behind,
}

/// How deep inside an element of an array.
#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Moves over a byte. Whether the element ends before it.
    fn ends_before(&mut self, byte: u8) -> bool {
        if self.escaped {
            self.escaped = false;
        } else if self.in_string {
            self.escaped = byte == b'\\';
            self.in_string = byte != b'"';
        } else {
            match byte {
                b',' | b']' if self.depth == 0 => return true,
                b'"' => self.in_string = true,
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        false
    }
}

/// Cuts items out of a body that comes in parts.
#[derive(Debug)]
pub(crate) struct Cutter {
    /// None: the first byte of the body says it.
    form: Option<Form>,
    state: State,
    /// The most bytes of an item.
    longest: usize,
    /// Where the next byte stands.
    spot: Spot,
    /// Where the item begins that is being read.
    begun: Spot,
    /// What has come of it.
    text: BytesMut,
    too_long: bool,
}

impl Cutter {
    /// Takes items one a line.
    pub(crate) fn lines(longest: usize) -> Self {
        Self::new(Some(Form::Lines), longest)
    }

    /// Takes an array if the body begins like one, else lines.
    pub(crate) fn array_or_lines(longest: usize) -> Self {
        Self::new(None, longest)
    }

    fn new(form: Option<Form>, longest: usize) -> Self {
        let spot = Spot { line: 1, column: 1 };
        let (state, text) = (State::Mark(0), BytesMut::new());
        Self { form, state, longest, spot, begun: spot, text, too_long: false }
    }

    /// How many bytes are held of an item that has not come whole.
    pub(crate) fn held(&self) -> usize {
        self.text.len()
    }

    /// Lets go of an item that has not come whole: when it has, it will have no text.
    pub(crate) fn let_go(&mut self) {
        self.text = BytesMut::new();
        self.too_long = true;
    }

    /// The next item; none once all of `input` is used up.
    pub(crate) fn cut(&mut self, input: &mut Bytes) -> Option<Result<Cut, Fault>> {
        while let Some(&byte) = input.first() {
            match self.state {
                State::Mark(come) if MARK.get(come) == Some(&byte) => {
                    input.advance(1);
                    let whole = come + 1 == MARK.len();
                    self.state = if whole { State::Before } else { State::Mark(come + 1) };
                }
                State::Mark(0) => self.state = State::Before,
                State::Mark(come) => self.begin_with_mark(come),
                State::Before | State::Opened | State::Behind if is_blank(byte) => {
                    let blank = input.iter().take_while(|byte| is_blank(**byte)).count();
                    let blank = input.split_to(blank);
                    self.pass(&blank);
                }
                State::Before | State::Opened => self.open(input, byte),
                State::Behind => return Some(Err(Fault::Behind)),
                State::Inside(nesting) => {
                    if let Some(cut) = self.inside(input, nesting) {
                        return Some(Ok(cut));
                    }
                }
            }
        }
        None
    }

    /// What is left once the body has ended.
    pub(crate) fn finish(&mut self) -> Option<Result<Cut, Fault>> {
        if let State::Mark(come @ 1..) = self.state {
            self.begin_with_mark(come);
        }
        match (self.state, self.form) {
            (State::Behind, _) => None,
            (_, Some(Form::Array)) => Some(Err(Fault::Unclosed)),
            (State::Inside(_), _) => {
                self.state = State::Before;
                Some(Ok(self.whole(Bytes::new())))
            }
            _ => None,
        }
    }

    /// The first byte that is not blank.
    fn open(&mut self, input: &mut Bytes, byte: u8) {
        let is_first = self.form.is_none();
        let form = *self.form.get_or_insert(match byte {
            b'[' => Form::Array,
            _ => Form::Lines,
        });
        self.state = match (self.state, form, byte) {
            (_, Form::Array, b'[') if is_first => State::Opened,
            (State::Opened, _, b']') => State::Behind,
            _ => return self.begin(b""),
        };
        self.pass(&input.split_to(1));
    }

    /// A part of a mark is none, but the beginning of an item that is no JSON. An array begins otherwise.
    fn begin_with_mark(&mut self, come: usize) {
        self.form = Some(Form::Lines);
        self.begin(&MARK[..come]);
    }

    fn begin(&mut self, text: &[u8]) {
        self.begun = self.spot;
        self.text.extend_from_slice(text);
        self.state = State::Inside(Nesting::default());
    }

    fn inside(&mut self, input: &mut Bytes, mut nesting: Nesting) -> Option<Cut> {
        let end = match self.form {
            Some(Form::Array) => input.iter().position(|byte| nesting.ends_before(*byte)),
            _ => input.iter().position(|byte| *byte == b'\n'),
        };
        let part = input.split_to(end.unwrap_or(input.len()));
        self.pass(&part);
        if end.is_none() {
            self.state = State::Inside(nesting);
            self.keep(&part);
            return None;
        }
        let separator = input.split_to(1);
        self.pass(&separator);
        self.state = if separator == "]" { State::Behind } else { State::Before };
        Some(self.whole(part))
    }

    /// Holds a part of an item, unless it is too long already.
    fn keep(&mut self, part: &[u8]) {
        // One more than may be: a carriage return at the end of a line is no part of it.
        if self.too_long || self.text.len() + part.len() > self.longest + 1 {
            self.let_go();
        } else {
            self.text.extend_from_slice(part);
        }
    }

    /// The item, of which this is the last part.
    fn whole(&mut self, last: Bytes) -> Cut {
        let text = if self.text.is_empty() && !self.too_long {
            last
        } else {
            self.keep(&last);
            self.text.split().freeze()
        };
        let line = text.strip_suffix(b"\r").unwrap_or(&text);
        let fits = !self.too_long && line.len() <= self.longest;
        self.too_long = false;
        Cut { spot: self.begun, text: fits.then(|| trimmed(&text)) }
    }

    /// Moves over bytes.
    fn pass(&mut self, bytes: &[u8]) {
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            None => self.spot.column += bytes.len(),
            Some(last) => {
                self.spot.line += bytes.iter().filter(|byte| **byte == b'\n').count();
                self.spot.column = bytes.len() - last;
            }
        }
    }
}

/// White space as JSON knows it.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A text without the white space behind it; there is none before it.
fn trimmed(text: &Bytes) -> Bytes {
    let length = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    text.slice(..length)
}

#[cfg(test)]
mod tests;
