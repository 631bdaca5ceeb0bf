//! The file and the environment, laid over each other and taken apart into sections.

use std::collections::BTreeMap;

use holdfast_core::model::InvalidName;
use toml::{Table, Value};

use super::environment::Environment;
use super::given::Given;
use super::problems::{Problems, one_line};
use super::section::{Section, Shown};

/// What was written, section by section, until each is taken; and what was found on the way.
pub(super) struct Source {
    file: Table,
    environment: BTreeMap<&'static str, BTreeMap<String, Given>>,
    problems: Problems,
    shown: Vec<Shown>,
}

/// Gives a section its checked form, and says how it was read.
type Read<T> = fn(Section<'_>) -> (Option<T>, Shown);

impl Source {
    /// Parses the file. A text that is no TOML ends it all: what else is wrong can't be told.
    pub(super) fn new(text: &str, variables: &Environment) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let mut environment = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (section, field, given) in variables.fields(&mut problems) {
            environment.entry(section).or_default().insert(field, given);
        }
        match text.parse::<Table>() {
            Ok(file) => Ok(Self { file, environment, problems, shown: Vec::new() }),
            Err(err) => {
                // The parser's own text quotes the file, and with it a password.
                let (line, column) = place(text, err.span().map_or(0, |span| span.start));
                let rule = format!("is no TOML at line {line}, column {column}");
                problems.refuse("the settings file", &rule);
                Err(problems)
            }
        }
    }

    /// Takes a section; one that nobody wrote is empty.
    pub(super) fn one<T>(&mut self, kind: &'static str, read: Read<T>) -> Option<T> {
        let mut given = match self.file.remove(kind) {
            None => BTreeMap::new(),
            Some(Value::Table(table)) => in_file(table),
            Some(_) => {
                self.problems.refuse(kind, &format!("must be a section, [{kind}]"));
                BTreeMap::new()
            }
        };
        given.extend(self.environment.remove(kind).unwrap_or_default());
        let (checked, shown) = read(Section::new(kind, kind.to_owned(), given, &mut self.problems));
        self.shown.push(shown);
        checked
    }

    /// Takes the sections below a heading, by their names.
    pub(super) fn many<N, T>(&mut self, kind: &'static str, read: Read<T>) -> Option<BTreeMap<N, T>>
    where
        N: Ord + for<'n> TryFrom<&'n str, Error = InvalidName>,
    {
        let sections = match self.file.remove(kind) {
            None => Table::new(),
            Some(Value::Table(sections)) => sections,
            Some(_) => {
                self.problems.refuse(kind, &format!("must be sections, [{kind}.<name>]"));
                return None;
            }
        };
        let checked: Vec<Option<(N, T)>> = sections
            .into_iter()
            .map(|(name, section)| {
                let path = format!("{kind}.{name}");
                let (name, given) = self.below(kind, &name, section)?;
                let (checked, shown) = read(Section::new(kind, path, given, &mut self.problems));
                self.shown.push(shown);
                Some((name, checked?))
            })
            .collect();
        checked.into_iter().collect()
    }

    /// The fields of one section below a heading, if it is one and has a good name.
    fn below<N>(
        &mut self,
        kind: &str,
        name: &str,
        section: Value,
    ) -> Option<(N, BTreeMap<String, Given>)>
    where
        N: for<'n> TryFrom<&'n str, Error = InvalidName>,
    {
        let fault = match (section, N::try_from(name)) {
            (Value::Table(table), Ok(name)) => return Some((name, in_file(table))),
            (Value::Table(_), Err(rule)) => format!("is no name: it {rule}"),
            _ => format!("must be a section, [{kind}.<name>]"),
        };
        self.problems.refuse(&format!("{kind}.{}", one_line(name)), &fault);
        None
    }

    /// Notes a fault of a field in a section that was taken, unless `holds`.
    pub(super) fn check(&mut self, holds: bool, path: &str, name: &str, rule: &str) {
        let section = self.shown.iter().find(|section| section.path == path);
        if let (false, Some(section)) = (holds, section) {
            self.problems.push(section.fault(name, rule));
        }
    }

    /// Ends it: what is left is no section.
    pub(super) fn finish(mut self) -> (Problems, Vec<Shown>) {
        for name in self.file.keys() {
            self.problems.refuse(&format!("[{}]", one_line(name)), "is no section");
        }
        (self.problems, self.shown)
    }
}

fn in_file(table: Table) -> BTreeMap<String, Given> {
    table.into_iter().map(|(field, value)| (field, Given::in_file(value))).collect()
}

/// Line and column of a byte, from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
