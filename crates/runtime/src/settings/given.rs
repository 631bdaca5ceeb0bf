//! A value as somebody gave it: in the file with a type of its own, in the environment as text.

use toml::Value;

use super::problems::one_line;

/// A value before anybody has looked at it.
#[derive(Clone, Debug)]
pub(super) struct Given {
    value: Value,
    /// The variable it came from; none: it stands in the file.
    pub(super) variable: Option<String>,
}

impl Given {
    /// A value that stands in the file.
    pub(super) fn in_file(value: Value) -> Self {
        Self { value, variable: None }
    }

    /// The text of a variable.
    pub(super) fn in_variable(variable: String, text: String) -> Self {
        Self { value: Value::String(text), variable: Some(variable) }
    }

    /// A default, written like the text of a variable.
    pub(super) fn default(text: &str) -> Self {
        Self::in_variable("the default".to_owned(), text.to_owned())
    }

    /// The value as it may be told: what is no plain value is told by its kind.
    pub(super) fn told(&self) -> String {
        match &self.value {
            Value::String(text) if text.is_empty() => "\"\"".to_owned(),
            Value::String(text) if text.trim() != text => one_line(&format!("\"{text}\"")),
            Value::String(text) => one_line(text),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(flag) => flag.to_string(),
            Value::Datetime(_) => "(a date)".to_owned(),
            Value::Array(_) => "(a list)".to_owned(),
            Value::Table(_) => "(a table)".to_owned(),
        }
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        self.value.as_str()
    }

    /// The whole number, if it is one; as a text only in a variable.
    pub(super) fn whole(&self) -> Option<u64> {
        match &self.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::String(text) if self.variable.is_some() => digits(text),
            _ => None,
        }
    }

    /// Yes or no, if it is one of them; as a text only in a variable.
    pub(super) fn flag(&self) -> Option<bool> {
        match &self.value {
            Value::Boolean(flag) => Some(*flag),
            Value::String(text) if self.variable.is_some() => match text.as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// The texts, if it is a list of them; in a variable between commas.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match &self.value {
            Value::Array(items) => items.iter().map(Value::as_str).collect(),
            Value::String(text) if self.variable.is_some() => {
                Some(text.split(',').filter(|_| !text.is_empty()).collect())
            }
            _ => None,
        }
    }
}

/// A whole number of plain digits: no sign, no spaces, no underscores.
pub(super) fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Given {
        let table: toml::Table = format!("v = {text}").parse().unwrap();
        Given::in_file(table["v"].clone())
    }

    #[test]
    fn in_the_file_a_number_in_quotes_is_no_number() {
        assert_eq!(file("64").whole(), Some(64));
        assert_eq!(file("\"64\"").whole(), None);
        assert_eq!(file("-1").whole(), None);
        assert_eq!(file("\"true\"").flag(), None);
        assert_eq!(file("true").flag(), Some(true));
    }

    #[test]
    fn in_a_variable_everything_is_text() {
        let text = |text: &str| Given::in_variable("V".to_owned(), text.to_owned());
        assert_eq!(text("64").whole(), Some(64));
        assert_eq!(text("+64").whole(), None);
        assert_eq!(text(" 64").whole(), None);
        assert_eq!(text("TRUE").flag(), None);
        assert_eq!(text("a,b").texts().unwrap(), ["a", "b"]);
        assert!(text("").texts().unwrap().is_empty());
    }

    #[test]
    fn a_value_is_told_so_that_its_spaces_are_seen() {
        assert_eq!(file("\"5m \"").told(), "\"5m \"");
        assert_eq!(file("\"\"").told(), "\"\"");
        assert_eq!(file("[\"secret\"]").told(), "(a list)");
    }
}
