//! Numbers and pieces out of any bytes: the same bytes always give the same ones.

/// Bytes that are taken apart from the front. Past the end there are zeros and empty pieces.
pub struct Draws<'a>(&'a [u8]);

impl<'a> Draws<'a> {
    /// All of `bytes` is there to be taken.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()])) % end
    }

    /// At most so many bytes.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// What comes before the next 0xFF, which is taken away; all the rest if there is none.
    pub fn piece(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0xff).unwrap_or(self.0.len());
        let piece = self.take(end);
        self.take(1);
        piece
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
