//! Where the shipped scripts still differ from the page: each constant is one finding. When its script is mended, the
//! constant goes, and with it the branch of the model that copies the fault.

/// `submit` of other bytes does not move the retention of the record that refuses it ("a submit that meets an ended
/// generation moves its end of retention"): a late copy of that call can run after the sweep, and what its caller was told
/// to be refused is accepted after all.
pub(crate) const REFUSED_REPEATS_DO_NOT_KEEP: bool = true;

/// `sweep` leaves record and request of an ended one whose ticket is lost: the handle is removed as if a newer generation
/// were there, and nothing will ever look at its fields again.
pub(crate) const LOST_TICKETS_LEAVE_FIELDS: bool = true;

/// `reclaim` kills a request whose lapses were within the limit when it was higher, also by a lease that charges nothing:
/// after `max_lapses` was lowered, an outage ends requests as `killed-workers`.
pub(crate) const OLD_LAPSES_KILL: bool = true;

/// `redrive` of a request whose ticket was lost, with no deadline given, starts it with a deadline of now: the next claim
/// ends it as `deadline-exceeded` and its request, kept for the operator, is gone. It should be told `late`.
pub(crate) const UNKNOWN_DEADLINES_ARE_NOW: bool = true;
