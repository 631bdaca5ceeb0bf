//! A key and its hash.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// How every key begins, so that people and scanners of secrets know one when they see it.
const PREFIX: &str = "hfk_";

/// Random bytes of a key.
const RANDOM: usize = 32;

/// Their length in base64url.
const DIGITS: usize = (RANDOM * 8).div_ceil(6);

/// A caller's key: `hfk_` and at least 32 random bytes in base64url. It is shown nowhere by itself.
pub struct Key(String);

impl Key {
    /// How every key begins.
    pub const PREFIX: &str = PREFIX;
    /// How many characters follow, at least.
    pub const DIGITS: usize = DIGITS;

    /// A new one.
    pub fn random() -> Self {
        // The generator of the thread is a cryptographic one, seeded by the system.
        let random: [u8; RANDOM] = rand::random();
        Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)))
    }

    /// Reads what a caller presents. None: it has not the form of a key.
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = (DIGITS..=4 * DIGITS).contains(&digits.len()) && digits.bytes().all(is_digit);
        fits.then(|| Self(text.to_owned()))
    }

    /// The key itself, for whoever made it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What the file keeps of it: the SHA-256 of all its bytes, the prefix included.
    ///
    /// A plain hash is enough: nobody guesses 32 random bytes.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(&self.0).into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The SHA-256 of a key.
#[derive(Clone, Copy)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Reads 64 hex digits.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            let pair = text.get(at..at + 2).filter(|pair| !pair.contains('+'))?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(hash))
    }

    /// Whether both are one, in a time that does not tell where they differ.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The bytes, to find two that are one.
    pub(super) fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_long_random_and_known_by_its_beginning() {
        let (one, two) = (Key::random(), Key::random());
        assert_eq!(one.expose().len(), 4 + 43);
        assert!(one.expose().starts_with("hfk_") && one.expose() != two.expose());
        let read = Key::read(one.expose()).unwrap();
        assert!(read.hash().is(&one.hash()) && !read.hash().is(&two.hash()));
        assert_eq!(format!("{one:?}"), "***");
    }

    #[test]
    fn what_is_too_short_to_be_random_is_no_key() {
        let digits = "A".repeat(43);
        assert!(Key::read(&format!("hfk_{digits}")).is_some());
        let long = "A".repeat(173);
        for text in [
            "",
            "hfk_",
            "hfk_password",
            &digits,
            &format!("HFK_{digits}"),
            &format!("hfk_{digits} "),
            &format!("hfk_{}", &digits[1..]),
            &format!("hfk_{digits}é"),
            &format!("hfk_{long}"),
        ] {
            assert!(Key::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_hash_is_64_hex_digits_as_sha256sum_prints_them() {
        let key = Key(format!("hfk_{}", "A".repeat(43)));
        let text = key.hash().to_string();
        assert_eq!(text, "80daff0bd65080955d7bd00e7dceb42d1b22449ffebff955d08e800ed30e1ecf");
        assert!(KeyHash::read(&text).unwrap().is(&key.hash()));
        assert!(KeyHash::read(&text.to_uppercase()).unwrap().is(&key.hash()));
        for wrong in ["", "0", &text[1..], &format!("{text}0"), &format!("+{}", &text[1..])] {
            assert!(KeyHash::read(wrong).is_none(), "{wrong}");
        }
    }
}
