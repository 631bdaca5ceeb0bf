//! What a list leaves out.

use holdfast_core::counted;
use holdfast_core::operate::Rows;

use crate::notes::Notes;

/// Tells what the rows leave out.
pub(crate) fn tell_rest<T>(list: &Rows<T>, limit: usize) {
    let notes = Notes::plain();
    if list.unreadable > 0 {
        let members = counted(list.unreadable, "member is", "members are");
        notes.say(format!("holdfastctl: {members} not laid out as this version writes them"));
    }
    if list.more {
        let told = "there may be more; --limit shows more than these";
        notes.say(format!("holdfastctl: {told} {limit}"));
    }
}
