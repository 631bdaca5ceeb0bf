//! Faults, written by hand: each takes one check or one write out of a script, or turns it round.
//!
//! A mutant is a text to be found exactly once in a Lua file, and what to put in its place. The walks must find each of
//! them; one that no walk could ever find would be no fault, and has no place here.

mod claim;
mod libs;
pub(crate) mod made;
mod memory;
mod reasons;
mod reclaim;
mod seen;
mod settle;
mod small;
mod submit;

pub(crate) use made::Change;
pub(crate) use reasons::REASONS;
pub(crate) use seen::{SEEN, Seen};

use crate::world::Slant;

/// A script with one fault.
#[derive(Clone, Copy)]
pub(crate) struct Mutant {
    /// The script in whose calls the fault shows.
    pub(crate) script: &'static str,
    /// The file it is in.
    pub(crate) file: &'static str,
    /// What the script does wrong.
    pub(crate) fault: &'static str,
    pub(crate) find: &'static str,
    pub(crate) put: &'static str,
    /// In which circumstances it shows, if they are rare.
    pub(crate) slant: Option<Slant>,
}

impl Mutant {
    /// The file, and the fault.
    pub(crate) fn name(&self) -> (String, String) {
        (self.file.to_owned(), self.fault.to_owned())
    }

    const fn when(self, slant: Slant) -> Self {
        Self { slant: Some(slant), ..self }
    }
}

/// A fault that shows anywhere.
const fn of(
    script: &'static str,
    file: &'static str,
    fault: &'static str,
    find: &'static str,
    put: &'static str,
) -> Mutant {
    Mutant { script, file, fault, find, put, slant: None }
}

/// Every mutant.
pub(crate) fn all() -> Vec<Mutant> {
    [
        submit::MUTANTS,
        claim::MUTANTS,
        settle::MUTANTS,
        reclaim::MUTANTS,
        small::MUTANTS,
        libs::MUTANTS,
        memory::MUTANTS,
    ]
    .concat()
}
