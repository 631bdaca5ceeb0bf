//! What the demo tells: a story and a bar on standard error, the ledger on standard output.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::ledger::Ledger;
use crate::cli::Output;
use crate::console::say;

/// The story as it goes, over a bar if somebody looks. Clones are the same value.
#[derive(Clone)]
pub(crate) struct Story(ProgressBar);

impl Story {
    /// A bar of so many requests. It is not drawn where standard error is no terminal.
    pub(crate) fn new(requests: usize) -> Self {
        let bar = ProgressBar::new(requests as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} answered, {elapsed}")
        {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// One more line.
    pub(crate) fn tell(&self, line: impl Display) {
        if self.0.is_hidden() {
            say(line);
        } else {
            self.0.println(line.to_string());
        }
    }

    /// One more request has its result.
    pub(crate) fn ended(&self) {
        self.0.inc(1);
    }

    /// The bar is done with.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Prints the ledger.
pub(crate) fn print(ledger: &Ledger, output: Output, lease: Duration) -> io::Result<()> {
    let text = match output {
        Output::Json => serde_json::to_string(ledger)? + "\n",
        Output::Text => table(ledger, lease),
    };
    io::stdout().lock().write_all(text.as_bytes())
}

fn table(ledger: &Ledger, lease: Duration) -> String {
    let takeover = match ledger.takeover {
        Some(takeover) => format!("{:.2} s", takeover.as_secs_f64()),
        None => "none".to_owned(),
    };
    let limit = format!("at most the lease of {:.1} s and 2 s", lease.as_secs_f64());
    let rows = [
        ("accepted", ledger.accepted.to_string(), "requests that the API took"),
        ("answered", ledger.answered.to_string(), "by an answer to this very request"),
        (
            "answered twice",
            ledger.answered_twice.to_string(),
            "read first and last, and not the same",
        ),
        ("lost", ledger.lost.to_string(), "no record at the end"),
        (
            "redelivered",
            ledger.redelivered.to_string(),
            "called more than once: nobody delivers exactly-once",
        ),
        ("fenced", ledger.fenced.to_string(), "late settlements that were refused"),
        ("takeover", takeover, limit.as_str()),
    ];
    let row =
        |(name, value, note): &(&str, String, &str)| format!("  {name:<16}{value:>8}   {note}\n");
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_every_figure() {
        let ledger = Ledger {
            accepted: 301,
            answered: 302,
            answered_twice: 303,
            lost: 304,
            redelivered: 305,
            fenced: 306,
            takeover: Some(Duration::from_millis(3_071)),
        };
        let table = table(&ledger, Duration::from_secs(3));
        for figure in ["301", "302", "303", "304", "305", "306", "3.07 s", "3.0 s"] {
            assert!(table.contains(figure), "{figure} is missing in\n{table}");
        }
    }
}
