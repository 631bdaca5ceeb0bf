//! Standard error: what is told beside the output, one line a note, and the progress bar.

use std::fmt::Display;
use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::escape;

/// No colours: it is plain in every terminal.
const BAR: &str = "{bar:30} {pos}/{len} {elapsed} {wide_msg}";

/// Standard error. Clones are the same.
#[derive(Clone)]
pub(crate) struct Notes(ProgressBar);

impl Notes {
    /// Without a bar.
    pub(crate) fn plain() -> Self {
        Self(ProgressBar::hidden())
    }

    /// With a bar of so many steps, if a terminal is there to draw it on.
    pub(crate) fn with_bar(steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        // The template is a constant; where it is refused, the plain one does as well.
        match ProgressStyle::with_template(BAR) {
            Ok(style) => Self(bar.with_style(style.progress_chars("=> "))),
            Err(_) => Self(bar),
        }
    }

    /// Tells one line; what could move a terminal's cursor is shown instead of done.
    pub(crate) fn say(&self, line: impl Display) {
        let line = escape::plain(&line.to_string());
        // If nobody reads it, the exit code says it all the same.
        self.0.suspend(|| drop(writeln!(io::stderr(), "{line}")));
    }

    /// Moves the bar.
    pub(crate) fn progress(&self, done: u64, told: String) {
        self.0.set_message(told);
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
