//! Faults made by a program from a script's text: each condition negated, each check removed, each write dropped, each pair
//! of neighbouring writes swapped, each early return removed.

mod lex;
mod parse;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use lex::names;
use parse::{Block, Expression, Span, Statement, What, parse};

/// What was done to a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Negated,
    CheckRemoved,
    WriteDropped,
    Swapped,
    ReturnRemoved,
}

impl Change {
    pub(crate) const ALL: [Self; 5] =
        [Self::Negated, Self::CheckRemoved, Self::WriteDropped, Self::Swapped, Self::ReturnRemoved];
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Negated => "negated",
            Self::CheckRemoved => "check removed",
            Self::WriteDropped => "write dropped",
            Self::Swapped => "swapped",
            Self::ReturnRemoved => "return removed",
        })
    }
}

/// A text with one change.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) change: Change,
    /// What was changed, in one line; unlike that of any other mutant of the file.
    pub(crate) name: String,
    /// The function that it stands in, if it does.
    pub(crate) function: Option<String>,
    /// The whole file.
    pub(crate) text: String,
}

/// Every mutant of a text, in the order of the text.
pub(crate) fn make(text: &str) -> Vec<Made> {
    let mut maker = Maker { text, made: Vec::new(), function: None, seen: BTreeMap::new() };
    maker.block(&parse(text), true);
    maker.made
}

/// What each function of a text names, and under "" what the rest of it names.
pub(crate) fn named(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut named = BTreeMap::<String, BTreeSet<String>>::new();
    for statement in parse(text) {
        let function = match statement.what {
            What::Function(name, _) => text[name].to_owned(),
            _ => String::new(),
        };
        named.entry(function).or_default().extend(names(&text[statement.at]));
    }
    named
}

struct Maker<'a> {
    text: &'a str,
    made: Vec<Made>,
    function: Option<String>,
    /// How often each name was given.
    seen: BTreeMap<String, usize>,
}

impl Maker<'_> {
    fn of(&self, span: &Span) -> &str {
        &self.text[span.clone()]
    }

    fn line(&self, span: &Span) -> String {
        self.of(span).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn add(&mut self, change: Change, name: String, span: &Span, put: &str) {
        let mut text = self.text.to_owned();
        text.replace_range(span.clone(), put);
        let name = format!("{change}: {}", shortened(&name));
        let times = self.seen.entry(name.clone()).or_default();
        *times += 1;
        let name = if *times > 1 { format!("{name} (no. {times})") } else { name };
        let function = self.function.clone();
        self.made.push(Made { change, name, function, text });
    }

    /// `outermost`: its last return ends the script or a function, and is no early one.
    fn block(&mut self, block: &Block, outermost: bool) {
        for (at, statement) in block.iter().enumerate() {
            let last = outermost && at + 1 == block.len();
            self.statement(statement, last);
            if let Some(next) = block.get(at + 1) {
                self.pair(statement, next);
            }
        }
    }

    fn statement(&mut self, statement: &Statement, last: bool) {
        let Statement { at, what, parts } = statement;
        match what {
            What::If(arms, otherwise) => self.branches(arms, otherwise.as_ref()),
            What::While(condition, body) => {
                self.condition(condition, true);
                self.block(body, false);
            }
            What::Blocks(body) => self.block(body, false),
            What::Function(name, body) => {
                let outer = self.function.clone();
                self.function = outer.clone().or_else(|| Some(self.of(name).to_owned()));
                self.block(body, true);
                self.function = outer;
            }
            What::Assign | What::Call => {
                self.add(Change::WriteDropped, self.line(at), at, "");
            }
            What::Return | What::Break if !last => {
                self.add(Change::ReturnRemoved, self.line(at), at, "");
            }
            What::Return | What::Break | What::Local => {}
        }
        parts.iter().for_each(|part| self.expression(part));
    }

    fn branches(&mut self, arms: &[(Expression, Block)], otherwise: Option<&Block>) {
        for (at, (condition, body)) in arms.iter().enumerate() {
            // Without its one statement an arm that nothing follows is as good as gone.
            let alone = at + 1 == arms.len() && otherwise.is_none() && body.len() == 1;
            let is_removed = matches!(
                body.first().map(|it| &it.what),
                Some(What::Assign | What::Call | What::Return | What::Break)
            );
            self.condition(condition, !(alone && is_removed));
            self.block(body, false);
        }
        if let Some(body) = otherwise {
            self.block(body, false);
        }
    }

    fn condition(&mut self, condition: &Expression, removes: bool) {
        let (at, name) = (&condition.at, self.line(&condition.at));
        let negated = format!("not ({})", self.of(at));
        self.add(Change::Negated, name.clone(), at, &negated);
        if removes {
            self.add(Change::CheckRemoved, name, at, "false");
        }
        self.expression(condition);
    }

    /// Takes each part of an `and` or `or` out of it.
    fn expression(&mut self, expression: &Expression) {
        let Expression { at, between, parts, blocks } = expression;
        if between.is_some() {
            for (number, part) in parts.iter().enumerate() {
                let span = match number {
                    0 => part.at.start..parts[1].at.start,
                    _ => parts[number - 1].at.end..part.at.end,
                };
                let name = format!("{} in {}", self.line(&part.at), self.line(at));
                self.add(Change::CheckRemoved, name, &span, "");
            }
        }
        // `a and b or c`: a condition too.
        if let (Some("or"), Some(Expression { between: Some("and"), parts: chosen, .. })) =
            (between, parts.first())
        {
            let at = &chosen[0].at;
            let negated = format!("not ({})", self.of(at));
            self.add(Change::Negated, self.line(at), at, &negated);
        }
        parts.iter().for_each(|part| self.expression(part));
        blocks.iter().for_each(|block| self.block(block, true));
    }

    fn pair(&mut self, one: &Statement, next: &Statement) {
        let (first, second) = (self.effect(one), self.effect(next));
        let (Some(first), Some(second)) = (first, second) else { return };
        if first == Effect::Reads && second == Effect::Reads {
            return;
        }
        let between = self.of(&(one.at.end..next.at.start));
        let put = format!("{}{between}{}", self.of(&next.at), self.of(&one.at));
        let name = format!("{} / {}", self.line(&one.at), self.line(&next.at));
        self.add(Change::Swapped, name, &(one.at.start..next.at.end), &put);
    }

    /// What a statement does to Redis, if it does nothing else.
    fn effect(&self, statement: &Statement) -> Option<Effect> {
        match &statement.what {
            What::Call => {
                let text = self.of(&statement.at);
                let reads = ["redis.call('ZCARD'", "redis.call('HLEN'", "may_publish("];
                let writes = ["redis.", "flush(", "publish(", "write_", "ring(", "promote_due("];
                if reads.iter().any(|it| text.starts_with(it)) {
                    Some(Effect::Reads)
                } else {
                    writes.iter().any(|it| text.starts_with(it)).then_some(Effect::Writes)
                }
            }
            What::If(arms, None) => self.all(arms.iter().flat_map(|(_, body)| body)),
            What::Blocks(body) => self.all(body.iter()),
            _ => None,
        }
    }

    fn all<'b>(&self, mut block: impl Iterator<Item = &'b Statement>) -> Option<Effect> {
        block.try_fold(Effect::Reads, |all, statement| Some(all.max(self.effect(statement)?)))
    }
}

/// What a statement does to Redis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Reads,
    Writes,
}

/// A long name, cut so that both its ends are seen.
fn shortened(name: &str) -> String {
    const MOST: usize = 110;
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= MOST {
        return name.to_owned();
    }
    let (first, last) = (&letters[..60], &letters[letters.len() - 45..]);
    format!("{} … {}", first.iter().collect::<String>(), last.iter().collect::<String>())
}

#[cfg(test)]
mod tests;
