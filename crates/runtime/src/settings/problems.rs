//! Everything that is wrong with the settings, told at once.

use std::fmt;

/// One fault: which field, what stands there, and the rule it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands: `section.field`.
    pub field: String,
    /// What stands there, as far as it may be told.
    pub value: Option<String>,
    /// The variable it came from, if it did not stand in the file.
    pub variable: Option<String>,
    /// What would be right.
    pub rule: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        if let Some(variable) = &self.variable {
            write!(f, " (from {variable})")?;
        }
        write!(f, " {}", self.rule)
    }
}

/// Every fault of the settings, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Notes a fault, unless `holds`.
    pub fn check(&mut self, holds: bool, field: &str, value: impl fmt::Display, rule: &str) {
        if !holds {
            let value = match value.to_string() {
                empty if empty.is_empty() => Some("\"\"".to_owned()),
                value => Some(one_line(&value)),
            };
            let (field, rule) = (field.to_owned(), rule.to_owned());
            self.push(Problem { field, value, variable: None, rule });
        }
    }

    /// Notes a fault of something that is not there, or whose value may not be told.
    pub fn refuse(&mut self, field: &str, rule: &str) {
        let (field, rule) = (field.to_owned(), rule.to_owned());
        self.push(Problem { field, value: None, variable: None, rule });
    }

    /// Notes a fault. Names of sections, fields and variables are foreign too.
    pub fn push(&mut self, problem: Problem) {
        let field = one_line(&problem.field);
        let variable = problem.variable.as_deref().map(one_line);
        self.0.push(Problem { field, variable, ..problem });
    }

    /// Notes what somebody else found.
    pub fn extend(&mut self, more: Problems) {
        self.0.extend(more.0);
    }

    /// Names a field as whoever gave it knows it, such as by a flag; not one that a variable gave.
    pub fn rename(&mut self, field: &str, name: &str) {
        let given = |it: &&mut Problem| it.field == field && it.variable.is_none();
        self.0.iter_mut().filter(given).for_each(|it| name.clone_into(&mut it.field));
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// The checked value, if nothing is wrong.
    pub fn or<T>(self, checked: T) -> Result<T, Self> {
        if self.is_empty() { Ok(checked) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The longest value that is told in full.
const LONGEST: usize = 120;

/// A value as it may stand in one line: no control characters, not without end.
pub(super) fn one_line(value: &str) -> String {
    let mut told = String::new();
    for (at, shown) in value.chars().enumerate() {
        match shown {
            _ if at == LONGEST => {
                told.push('…');
                break;
            }
            '"' | '\'' | '\\' => told.push(shown),
            shown => told.extend(shown.escape_debug()),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_stand_in_one_line_however_values_look() {
        let mut problems = Problems::default();
        problems.check(false, "worker.name", "a\nb\u{1b}[31m", "must be a name");
        problems.refuse("queues.q.target", "is missing");
        problems.refuse("HOLDFAST_X\ny", "is no setting");
        problems.check(true, "worker.lease", "15s", "is fine");
        let told = problems.to_string();
        assert_eq!(
            told,
            "worker.name = a\\nb\\u{1b}[31m must be a name; queues.q.target is missing; \
             HOLDFAST_X\\ny is no setting"
        );
    }

    #[test]
    fn a_field_is_told_by_the_flag_that_gave_it_but_not_if_a_variable_did() {
        let mut problems = Problems::default();
        problems.refuse("redis.url", "is wrong");
        let (field, rule) = ("redis.url".to_owned(), "is wrong".to_owned());
        problems.push(Problem { field, value: None, variable: Some("V".to_owned()), rule });
        problems.rename("redis.url", "--redis");
        assert_eq!(problems.to_string(), "--redis is wrong; redis.url (from V) is wrong");
    }

    #[test]
    fn a_long_value_is_cut() {
        assert_eq!(one_line(&"x".repeat(500)).chars().count(), LONGEST + 1);
        assert_eq!(one_line("short"), "short");
    }
}
