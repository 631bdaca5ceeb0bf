//! One section on its way from what was written to what was checked.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::given::Given;
use super::problems::{Problem, Problems, one_line};
use super::value::Setting;

/// A section being read. A field that is faulty is noted and comes back as nothing, so that
/// reading goes on: every fault is told at once.
pub(super) struct Section<'p> {
    kind: &'static str,
    path: String,
    given: BTreeMap<String, Given>,
    read: Vec<Field>,
    problems: &'p mut Problems,
}

/// A field that was read, as `show` and the docs want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// What it is where nobody says anything.
    pub(super) default: Option<&'static str>,
    /// What it is here, as the file would spell it.
    pub(super) value: Option<String>,
    /// Whether somebody says anything.
    pub(super) given: bool,
    variable: Option<String>,
}

/// A section that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) kind: &'static str,
    pub(super) path: String,
    pub(super) fields: Vec<Field>,
}

impl Shown {
    /// A fault of one of its fields.
    pub(super) fn fault(&self, name: &str, rule: &str) -> Problem {
        fault_of(&self.path, &self.fields, name, rule)
    }
}

/// A fault of a field that was read: the value is told as it is in force.
fn fault_of(path: &str, fields: &[Field], name: &str, rule: &str) -> Problem {
    let field = fields.iter().find(|field| field.name == name);
    let value = field.and_then(|field| field.value.as_deref());
    Problem {
        field: format!("{path}.{name}"),
        value: value.map(|value| one_line(value.trim_matches('"'))),
        variable: field.and_then(|field| field.variable.clone()),
        rule: rule.to_owned(),
    }
}

impl<'p> Section<'p> {
    pub(super) fn new(
        kind: &'static str,
        path: String,
        given: BTreeMap<String, Given>,
        problems: &'p mut Problems,
    ) -> Self {
        Self { kind, path, given, read: Vec::new(), problems }
    }

    /// A field with a default.
    pub(super) fn field<T: Setting>(
        &mut self,
        name: &'static str,
        default: &'static str,
    ) -> Option<T> {
        self.read(name, Some(default), |_| None)?
    }

    /// A field with a default, from the first to the last of `range`.
    pub(super) fn within<T: Setting + PartialOrd>(
        &mut self,
        name: &'static str,
        default: &'static str,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        self.read(name, Some(default), outside(range))?
    }

    /// A field that may be absent.
    pub(super) fn optional<T: Setting>(&mut self, name: &'static str) -> Option<Option<T>> {
        self.read(name, None, |_| None)
    }

    /// A field that may be absent, from the first to the last of `range`.
    pub(super) fn optional_within<T: Setting + PartialOrd>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<T>,
    ) -> Option<Option<T>> {
        self.read(name, None, outside(range))
    }

    /// A field that has to be there.
    pub(super) fn required<T: Setting>(&mut self, name: &'static str) -> Option<T> {
        let value = self.optional::<T>(name)?;
        if value.is_none() {
            self.refuse(name, &format!("is missing: it {}", T::RULE));
        }
        value
    }

    /// A field whose default follows from others; `words` say how.
    pub(super) fn derived<T: Setting + PartialOrd>(
        &mut self,
        name: &'static str,
        words: &'static str,
        default: Option<T>,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let given = self.optional_within(name, range)?;
        let value = given.or(default)?;
        if let Some(field) = self.read.last_mut() {
            field.default = Some(words);
            field.value = Some(value.write());
        }
        Some(value)
    }

    fn read<T: Setting>(
        &mut self,
        name: &'static str,
        default: Option<&'static str>,
        broken: impl Fn(&T) -> Option<String>,
    ) -> Option<Option<T>> {
        let given = self.given.remove(name);
        let default_value = default.and_then(|text| T::read(&Given::default(text)));
        let variable = given.as_ref().and_then(|given| given.variable.clone());
        let (value, faulty) = match &given {
            None => (default_value, false),
            Some(given) => match T::read(given) {
                None => {
                    self.fault::<T>(name, given, T::RULE);
                    (None, true)
                }
                Some(value) => {
                    let rule = broken(&value);
                    rule.iter().for_each(|rule| self.fault::<T>(name, given, rule));
                    (Some(value), rule.is_some())
                }
            },
        };
        let text = value.as_ref().map(T::write);
        self.read.push(Field { name, default, value: text, given: given.is_some(), variable });
        if faulty { None } else { Some(value) }
    }

    fn fault<T: Setting>(&mut self, name: &str, given: &Given, rule: &str) {
        self.problems.push(Problem {
            field: self.path_of(name),
            value: (!T::HIDDEN).then(|| given.told()),
            variable: given.variable.clone(),
            rule: if T::HIDDEN { format!("{rule}; its value is hidden") } else { rule.to_owned() },
        });
    }

    /// Notes a fault of a field that was read, unless `holds`.
    pub(super) fn check(&mut self, holds: bool, name: &str, rule: &str) {
        if !holds {
            self.problems.push(fault_of(&self.path, &self.read, name, rule));
        }
    }

    /// Notes a fault of a field whose value says nothing.
    pub(super) fn refuse(&mut self, name: &str, rule: &str) {
        let field = self.path_of(name);
        self.problems.refuse(&field, rule);
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    /// Ends the section: what is left is no field.
    pub(super) fn finish(mut self) -> Shown {
        for (name, given) in std::mem::take(&mut self.given) {
            self.problems.push(Problem {
                field: self.path_of(&one_line(&name)),
                value: None,
                variable: given.variable,
                rule: format!("is no setting of [{}]", self.path),
            });
        }
        Shown { kind: self.kind, path: self.path, fields: self.read }
    }
}

/// The rule that a value outside of `range` breaks.
fn outside<T: Setting + PartialOrd>(range: RangeInclusive<T>) -> impl Fn(&T) -> Option<String> {
    let plain = |bound: &T| bound.write().trim_matches('"').to_owned();
    let rule = format!("must be from {} to {}", plain(range.start()), plain(range.end()));
    move |value| (!range.contains(value)).then(|| rule.clone())
}
