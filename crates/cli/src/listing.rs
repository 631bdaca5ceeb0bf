//! What a list leaves out.

use holdfast_core::counted;
use holdfast_core::operate::Rows;

use crate::notes::Notes;

/// Tells what the rows leave out. `most`: what the list can be asked for.
pub(crate) fn tell_rest<T>(list: &Rows<T>, limit: usize, most: usize) {
    let notes = Notes::plain();
    if list.unreadable > 0 {
        let members = counted(list.unreadable, "member is", "members are");
        notes.say(format!("holdfastctl: {members} not laid out as this version writes them"));
    }
    if list.more {
        let how = if limit < most { "; --limit shows more" } else { "" };
        notes.say(format!("holdfastctl: there may be more{how} than these {limit}"));
    }
}
