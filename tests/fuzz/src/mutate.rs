//! Changes bytes at random, from a seed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The longest input that is made.
const LONGEST: usize = 4096;

/// What readers stumble over, whatever they read.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"\\ud83d",
    b"\\u0000",
    b"\"",
    b"\\",
    b"%2e%2e%2f",
    b"%00",
    b"%",
    b"+",
    b"-1",
    b"-0",
    b"0",
    b"1e400",
    b"18446744073709551616",
    b"9223372036854775807",
    b"9007199254740993",
    b"S3CRET",
    b"null",
    b"[[[[[[[[",
    b"{\"a\":",
    b",",
    b":",
    b"=",
    b"&",
];

/// Makes inputs out of kept ones.
pub struct Mutator<'a> {
    dice: StdRng,
    kept: &'a [Vec<u8>],
    words: &'a [&'a str],
}

impl<'a> Mutator<'a> {
    /// Inputs out of these, always the same ones for one seed.
    pub fn new(seed: u64, kept: &'a [Vec<u8>], words: &'a [&'a str]) -> Self {
        Self { dice: StdRng::seed_from_u64(seed), kept, words }
    }

    /// The next one.
    pub fn input(&mut self) -> Vec<u8> {
        let mut bytes = self.kept_one().to_vec();
        // Mostly a few changes: a reader goes deep only into what is nearly right.
        for _ in 0..1 << self.dice.random_range(0..5) {
            self.change(&mut bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn kept_one(&mut self) -> &'a [u8] {
        match self.kept.len() {
            0 => &[],
            count => &self.kept[self.dice.random_range(0..count)],
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.dice.random_range(0..=bytes.len());
        match self.dice.random_range(0..9) {
            0 | 1 => {
                let bit = 1 << self.dice.random_range(0..8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bit;
                }
            }
            2 => {
                let other = self.dice.random();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = other;
                }
            }
            3 => {
                let word = self.word();
                bytes.splice(at..at, word);
            }
            4 => {
                let word = self.word();
                let end = (at + word.len()).min(bytes.len());
                bytes.splice(at..end, word);
            }
            5 => drop(bytes.drain(self.part(at, bytes.len()))),
            6 => {
                let times = self.dice.random_range(1..40);
                let again = bytes[self.part(at, bytes.len())].repeat(times);
                bytes.splice(at..at, again.into_iter().take(LONGEST));
            }
            7 => {
                let other = self.kept_one();
                let from = self.dice.random_range(0..=other.len());
                let part = self.part(from, other.len());
                bytes.splice(at..at, other[part].iter().copied());
            }
            _ => {
                // The end of another behind the beginning of this.
                let other = self.kept_one();
                let from = self.dice.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }

    /// A part that begins there, mostly a short one.
    fn part(&mut self, from: usize, length: usize) -> std::ops::Range<usize> {
        let most = 1 << self.dice.random_range(0..9);
        from..(from + self.dice.random_range(0..=most)).min(length)
    }

    fn word(&mut self) -> Vec<u8> {
        let at = self.dice.random_range(0..WORDS.len() + self.words.len());
        match WORDS.get(at) {
            Some(word) => word.to_vec(),
            None => self.words[at - WORDS.len()].as_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_the_same_inputs_again_and_another_makes_others() {
        let kept = [b"{\"a\":1}".to_vec(), b"hello".to_vec()];
        let made = |seed| -> Vec<Vec<u8>> {
            let mut mutator = Mutator::new(seed, &kept, &["word"]);
            (0..500).map(|_| mutator.input()).collect()
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
        assert!(made(7).iter().all(|bytes| bytes.len() <= LONGEST));
    }

    #[test]
    fn nothing_kept_is_a_place_to_start_from_too() {
        let mut mutator = Mutator::new(1, &[], &[]);
        assert!((0..100).any(|_| !mutator.input().is_empty()));
    }
}
