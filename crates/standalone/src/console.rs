//! What is said to whoever started the process, on its standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use holdfast_runtime::Problems;

/// A command line or settings that can't be used (`EX_USAGE`).
const UNUSABLE: u8 = 64;

/// One line, or several. If nobody reads them, the exit code says it all the same.
pub(crate) fn say(told: impl Display) {
    let _ = writeln!(io::stderr(), "{told}");
}

/// Says what is wrong with the settings; gives the exit code for it.
pub(crate) fn unusable(problems: &Problems) -> ExitCode {
    say(format_args!("unusable settings: {problems}"));
    ExitCode::from(UNUSABLE)
}

/// Says what is wrong with the command line, or shows the help that it asked for.
pub(crate) fn usage(wrong: &clap::Error) -> ExitCode {
    // Help and the version go to stdout and are no failure.
    let told = wrong.print().is_ok();
    if told && !wrong.use_stderr() { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) }
}
