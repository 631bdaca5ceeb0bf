//! What a key may do.

use std::fmt;
use std::str::FromStr;

/// One kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Submit requests.
    Submit,
    /// Read states, results and depths.
    Read,
    /// Cancel requests.
    Cancel,
    /// Operators' calls, over all tenants.
    Operate,
}

/// A word that names no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be some of submit, read, cancel, operate, each once, between commas")]
pub struct UnknownScope;

impl Scope {
    /// All of them, in the order of the docs.
    pub const ALL: [Self; 4] = [Self::Submit, Self::Read, Self::Cancel, Self::Operate];

    /// Its word in the file and in problems.
    pub fn word(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Cancel => "cancel",
            Self::Operate => "operate",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Some scopes, one at least.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Every scope there is.
    pub fn all() -> Self {
        Self(Scope::ALL.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }

    /// Whether a scope is among them.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let mut bits = 0;
        for word in text.split(',') {
            let scope = Scope::ALL.into_iter().find(|scope| scope.word() == word);
            let bit = scope.ok_or(UnknownScope)?.bit();
            if bits & bit != 0 {
                return Err(UnknownScope);
            }
            bits |= bit;
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = Scope::ALL.into_iter().filter(|scope| self.has(*scope));
        let words: Vec<&str> = there.map(Scope::word).collect();
        f.write_str(&words.join(","))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_a_list_of_known_words_each_once() {
        let some: Scopes = "cancel,submit".parse().unwrap();
        assert_eq!(some.to_string(), "submit,cancel");
        assert!(some.has(Scope::Submit) && some.has(Scope::Cancel));
        assert!(!some.has(Scope::Read) && !some.has(Scope::Operate));
        assert_eq!(Scopes::all().to_string(), "submit,read,cancel,operate");
        for wrong in ["", "all", "read,read", "read,", "Read", "read, submit"] {
            assert_eq!(wrong.parse::<Scopes>(), Err(UnknownScope), "{wrong}");
        }
    }
}
