//! Names: of queues, in lists, of a worker, of a user.

use std::collections::BTreeSet;

use holdfast_core::model::QueueName;

use super::given::Given;
use super::value::{Setting, quoted};

const LONGEST: usize = 63;

/// A list of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names(pub(super) Vec<QueueName>);

impl Setting for Names {
    const RULE: &'static str = "must be a list of at least one name, none of them twice, \
        each 1 to 63 of a-z, 0-9, '.', '_' and '-'";

    fn read(given: &Given) -> Option<Self> {
        let names: Option<Vec<QueueName>> =
            given.texts()?.into_iter().map(|name| QueueName::try_from(name).ok()).collect();
        let names = names?;
        let distinct: BTreeSet<&QueueName> = names.iter().collect();
        (!names.is_empty() && distinct.len() == names.len()).then_some(Self(names))
    }

    fn write(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|name| quoted(name.as_str())).collect();
        format!("[{}]", names.join(", "))
    }
}

/// What a worker calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerName(pub(super) String);

impl Setting for WorkerName {
    const RULE: &'static str = "must be 1 to 63 of A-Z, a-z, 0-9, '.', '_' and '-'";

    fn read(given: &Given) -> Option<Self> {
        let text = given.text()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        ((1..=LONGEST).contains(&text.len()) && text.bytes().all(plain))
            .then(|| Self(text.to_owned()))
    }

    fn write(&self) -> String {
        quoted(&self.0)
    }
}

/// A text of at least one character, like a user's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) String);

impl Setting for Word {
    const RULE: &'static str = "must be a text that is not empty";

    fn read(given: &Given) -> Option<Self> {
        given.text().filter(|text| !text.is_empty()).map(|text| Self(text.to_owned()))
    }

    fn write(&self) -> String {
        quoted(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_nothing_twice() {
        let read = |text: &str| Names::read(&Given::default(text));
        let names: Vec<String> = read("a,b").unwrap().0.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "b"]);
        for wrong in ["", "a,a", "a,", "a, b", "A", "a/b"] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
