//! One line of the file of keys: a key by its hash, whose it is, and what it may do.

use std::fmt;

use holdfast_core::model::TenantName;

use super::{Key, KeyHash, Scopes};

/// A key by its hash, whose it is, and what it may do:
/// `tenant=acme scopes=submit,read expires=1790000000 name=ci sha256=…`.
#[derive(Clone, Debug)]
pub struct KeyLine {
    /// Whose requests its calls see.
    pub tenant: TenantName,
    /// What it may do.
    pub scopes: Scopes,
    /// From when on it is refused, in Unix seconds; none: never.
    pub expires: Option<u64>,
    /// What people call it.
    pub name: Option<String>,
    /// The SHA-256 of the key.
    pub hash: KeyHash,
}

/// The fields of a line.
const FIELDS: [&str; 5] = ["tenant", "scopes", "expires", "name", "sha256"];

/// Times beyond it are no seconds but milliseconds.
const LAST_SECOND: u64 = 100_000_000_000;

impl KeyLine {
    /// Whether it is refused at this time, in Unix ms.
    pub fn has_expired(&self, now_ms: u64) -> bool {
        self.expires.is_some_and(|at| at.saturating_mul(1000) <= now_ms)
    }

    /// Reads a line. What is wrong is told by its rule; nothing of the line is repeated, since a
    /// key may stand there by mistake.
    pub(super) fn read(line: &str) -> Result<Self, &'static str> {
        let mut given = [None; FIELDS.len()];
        for word in line.split_ascii_whitespace() {
            let (field, value) = word.split_once('=').ok_or(FORM)?;
            let at = FIELDS.iter().position(|known| *known == field).ok_or(FORM)?;
            if given[at].replace(value).is_some() {
                return Err("has a field twice");
            }
        }
        let [tenant, scopes, expires, name, hash] = given;
        let tenant = tenant.ok_or("lacks tenant")?;
        let scopes = scopes.ok_or("lacks scopes")?;
        let hash = hash.ok_or("lacks sha256")?;
        Ok(Self {
            tenant: TenantName::try_from(tenant).map_err(|_| TENANT)?,
            scopes: scopes.parse().map_err(|_| SCOPES)?,
            expires: expires.map(|text| second(text).ok_or(EXPIRES)).transpose()?,
            name: name.map(|text| label(text).ok_or(NAME)).transpose()?,
            hash: match KeyHash::read(hash) {
                Some(hash) => hash,
                None if Key::read(hash).is_some() => return Err(BARE),
                None => return Err(HASH),
            },
        })
    }
}

const FORM: &str = "must be fields of tenant=, scopes=, expires=, name= and sha256=";
const TENANT: &str = "has a tenant that is no name: 1 to 63 of a-z, 0-9, '.', '_', '-', starting \
    with a letter or a digit";
const SCOPES: &str =
    "has scopes that are not some of submit, read, cancel, operate, each once, between commas";
const EXPIRES: &str = "has expires that is no time in whole Unix seconds";
const NAME: &str = "has a name that is none: 1 to 63 of a-z, 0-9, '.', '_', '-', starting with a \
    letter or a digit";
const HASH: &str = "has a sha256 that is not 64 hex digits";
const BARE: &str = "holds a key itself: only its SHA-256 belongs there. Make a new key";

fn second(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|second| digits && (1..LAST_SECOND).contains(second))
}

/// Names of keys follow the rule for those of tenants.
fn label(text: &str) -> Option<String> {
    TenantName::try_from(text).ok().map(|_| text.to_owned())
}

impl fmt::Display for KeyLine {
    /// The hash comes last, so that a line that was cut while it was written is never whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant={} scopes={}", self.tenant, self.scopes)?;
        if let Some(expires) = self.expires {
            write!(f, " expires={expires}")?;
        }
        if let Some(name) = &self.name {
            write!(f, " name={name}")?;
        }
        write!(f, " sha256={}", self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash() -> String {
        "0123456789abcdef".repeat(4)
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        for line in [
            format!("tenant=acme scopes=submit,read sha256={}", hash()),
            format!("tenant=a.b scopes=operate expires=1790000000 name=ci-2 sha256={}", hash()),
        ] {
            assert_eq!(KeyLine::read(&line).unwrap().to_string(), line);
        }
        let mixed = format!("  sha256={}\tscopes=read   tenant=acme ", hash());
        assert_eq!(KeyLine::read(&mixed).unwrap().tenant.as_str(), "acme");
    }

    #[test]
    fn each_fault_has_its_rule_and_nothing_is_repeated() {
        let good = format!("tenant=acme scopes=read sha256={}", hash());
        let key = Key::random();
        for (line, rule) in [
            ("acme read S3CRET".to_owned(), FORM),
            (format!("{good} S3CRET=1"), FORM),
            (format!("{good} scopes=S3CRET"), "has a field twice"),
            (format!("scopes=read sha256={}", hash()), "lacks tenant"),
            (format!("tenant=acme sha256={}", hash()), "lacks scopes"),
            ("tenant=acme scopes=read".to_owned(), "lacks sha256"),
            (good.replace("acme", "S3CRET"), TENANT),
            (good.replace("scopes=read", "scopes=S3CRET"), SCOPES),
            (format!("{good} expires=2026-01-01"), EXPIRES),
            (format!("{good} expires=0"), EXPIRES),
            (format!("{good} expires=+1790000000"), EXPIRES),
            (format!("{good} expires=1790000000000"), EXPIRES),
            (format!("{good} name=S3CRET"), NAME),
            (good.replace("0123", "S3CR"), HASH),
            (good[..good.len() - 1].to_owned(), HASH),
            (format!("tenant=acme scopes=read sha256={}", key.expose()), BARE),
        ] {
            let told = KeyLine::read(&line).unwrap_err();
            assert_eq!(told, rule, "{line}");
            assert!(!told.contains("S3CRET") && !told.contains(key.expose()));
        }
    }

    #[test]
    fn a_key_is_refused_from_its_second_on() {
        let line = format!("tenant=acme scopes=read expires=1790000000 sha256={}", hash());
        let line = KeyLine::read(&line).unwrap();
        assert!(!line.has_expired(1_789_999_999_999));
        assert!(line.has_expired(1_790_000_000_000));
        assert!(!KeyLine { expires: None, ..line }.has_expired(u64::MAX));
    }
}
