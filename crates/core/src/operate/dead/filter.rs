//! Which dead letters are meant.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::DeadRow;
use crate::model::{FailureCode, Outcome, TenantName};

/// Which dead letters are meant; what is not said matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DeadFilter {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// With this outcome.
    pub outcome: Option<String>,
    /// Whose last failure was of this kind.
    pub failure: Option<String>,
    /// That ended at least so many seconds ago.
    pub older_seconds: Option<u64>,
    /// That ended at most so many seconds ago.
    pub younger_seconds: Option<u64>,
}

/// A filter that can match nothing. It is told by its field alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct FilterFault {
    /// Which field.
    pub field: &'static str,
    /// What would be right.
    pub rule: &'static str,
}

impl DeadFilter {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether its words are known ones.
    pub fn check(&self) -> Result<(), FilterFault> {
        let fault = |field, rule| Err(FilterFault { field, rule });
        if self.tenant.as_deref().is_some_and(|name| TenantName::try_from(name).is_err()) {
            return fault("tenant", "must be 1 to 63 of a-z, 0-9, '.', '_', '-'");
        }
        let is_outcome =
            |word: &str| Outcome::ALL.iter().any(|it| it.is_dead() && it.word() == word);
        if self.outcome.as_deref().is_some_and(|word| !is_outcome(word)) {
            return fault(
                "outcome",
                "must be gave-up, killed-workers, unusable or answer-too-large",
            );
        }
        let is_code = |word: &str| FailureCode::ALL.iter().any(|it| it.word() == word);
        if self.failure.as_deref().is_some_and(|word| !is_code(word)) {
            return fault("failure", "must be the code of a failure, like connect or status");
        }
        Ok(())
    }

    /// Whether a letter is meant, at a time in ms.
    pub(super) fn takes(&self, row: &DeadRow, now: u64) -> bool {
        let is = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
        };
        let code = row.last_failure.as_ref().map(|failure| failure.code.as_str());
        let age = row.ended_at.map(|at| now.saturating_sub(at.0) / 1000);
        is(&self.tenant, row.tenant.as_deref())
            && is(&self.outcome, row.outcome.as_deref())
            && is(&self.failure, code)
            && self.older_seconds.is_none_or(|least| age.is_some_and(|age| age >= least))
            && self.younger_seconds.is_none_or(|most| age.is_some_and(|age| age <= most))
    }
}

impl fmt::Display for DeadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |it: Option<u64>| it.map(|it| format!("{it}s"));
        let parts = [
            ("tenant", self.tenant.clone()),
            ("outcome", self.outcome.clone()),
            ("failure", self.failure.clone()),
            ("older", seconds(self.older_seconds)),
            ("younger", seconds(self.younger_seconds)),
        ];
        let said = parts.into_iter().filter_map(|(name, it)| Some(format!("{name}={}", it?)));
        let said: Vec<String> = said.collect();
        f.write_str(if said.is_empty() { "all" } else { "" })?;
        f.write_str(&said.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::{LastFailure, Seconds};

    fn row() -> DeadRow {
        let failure = LastFailure { code: "status".to_owned(), status: Some(503), at: None };
        DeadRow {
            queue: "q".to_owned(),
            shard: 0,
            id: Some("i".to_owned()),
            tenant: Some("t".to_owned()),
            key: String::new(),
            handle: String::new(),
            generation: String::new(),
            outcome: Some("gave-up".to_owned()),
            last_failure: Some(failure),
            attempts: Some(1),
            lapses: Some(0),
            forgiven: Some(0),
            ended_at: Some(Seconds(10_000)),
            kept_until: Seconds(99_000),
        }
    }

    fn filter(json: &str) -> DeadFilter {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_letter_is_meant_if_it_matches_all_that_is_said() {
        for (json, takes) in [
            ("{}", true),
            (r#"{"tenant":"t"}"#, true),
            (r#"{"tenant":"u"}"#, false),
            (r#"{"outcome":"gave-up","failure":"status"}"#, true),
            (r#"{"outcome":"unusable"}"#, false),
            (r#"{"failure":"connect"}"#, false),
            (r#"{"older_seconds":5}"#, true),
            (r#"{"older_seconds":6}"#, false),
            (r#"{"younger_seconds":5}"#, true),
            (r#"{"younger_seconds":4}"#, false),
        ] {
            assert_eq!(filter(json).takes(&row(), 15_000), takes, "{json}");
        }
        let lost = DeadRow { ended_at: None, outcome: None, ..row() };
        assert!(!filter(r#"{"older_seconds":0}"#).takes(&lost, 15_000));
    }

    #[test]
    fn a_filter_that_can_match_nothing_is_told_by_its_field() {
        for (json, field) in [
            (r#"{"outcome":"answered"}"#, "outcome"),
            (r#"{"failure":"S3CRET"}"#, "failure"),
            (r#"{"tenant":"T"}"#, "tenant"),
        ] {
            let fault = filter(json).check().unwrap_err();
            assert_eq!(fault.field, field);
            assert!(!fault.to_string().contains("S3CRET"));
        }
        assert!(serde_json::from_str::<DeadFilter>(r#"{"tenants":"t"}"#).is_err());
    }

    #[test]
    fn a_filter_says_itself_in_the_audit_line() {
        assert_eq!(filter("{}").to_string(), "all");
        let told = filter(r#"{"tenant":"t","older_seconds":60}"#).to_string();
        assert_eq!(told, "tenant=t older=60s");
    }
}
