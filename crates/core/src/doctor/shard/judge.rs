//! What is wrong with one request, seen at one moment.

use crate::{
    model::{Home, Ticket},
    script::{Kept, Paper},
};

/// The name of each fault, and what it means.
type Faults = Vec<(&'static str, String)>;

/// The last day of the year 9999, in ms: no time of ours is later.
const LAST_TIME: u64 = 253_402_300_799_999;

/// Everything that is wrong with what is kept under a key.
pub(super) fn judge(kept: &Kept) -> Faults {
    match &kept.paper {
        Paper::Lost => Vec::new(),
        Paper::Broken => {
            vec![("ticket-unreadable", "a ticket cannot be read by this version: whoever meets its request ends it as unusable".to_owned())]
        }
        Paper::Whole(ticket) => whole(ticket, kept),
    }
}

fn whole(ticket: &Ticket, kept: &Kept) -> Faults {
    let mut faults = Faults::new();
    let mut say = |name, told: String| faults.push((name, told));
    let homes: Vec<&str> = kept.homes.iter().map(|(home, _)| home.word()).collect();
    let [(home, score)] = kept.homes[..] else {
        match homes.is_empty() {
            true => say(
                "no-home",
                "a request is in no home: nobody will take it; submit it anew under another id"
                    .to_owned(),
            ),
            false => say(
                "two-homes",
                format!("a request is in {}: it may run twice", homes.join(" and ")),
            ),
        }
        return faults;
    };
    if home.is_end() {
        if kept.result == 0 {
            say("record-missing", "a request ended, and its record is lost".to_owned());
        }
        if home == Home::Finished && kept.request > 0 {
            say(
                "request-left",
                "a finished request still has its body: it takes memory until it is swept"
                    .to_owned(),
            );
        }
    } else {
        if kept.request == 0 {
            say(
                "request-missing",
                "a request that has not ended lost its body: whoever takes it ends it as unusable"
                    .to_owned(),
            );
        }
        if kept.result > 0 {
            say(
                "record-of-the-living",
                "a request that has not ended has a record already".to_owned(),
            );
        }
    }
    if ticket.fence.is_some() && home != Home::Leased {
        say(
            "owner-without-lease",
            format!("a request is {} and has an owner all the same", home.word()),
        );
    }
    match home {
        _ if score > LAST_TIME => {
            say(
                "wrong-place",
                format!("a request is {} for ever: its score is no time", home.word()),
            );
        }
        Home::Pending | Home::Suspects if score != ticket.deadline => {
            say(
                "wrong-place",
                format!("a request is {} at another time than its deadline", home.word()),
            );
        }
        Home::Delayed if score >= ticket.deadline => {
            say("wrong-place", "a request is due only after its deadline".to_owned());
        }
        _ => {}
    }
    let waits = matches!(home, Home::Pending | Home::Suspects);
    if waits && ticket.is_suspect() != (home == Home::Suspects) {
        say(
            "wrong-set",
            "a request waits among suspects and is none, or the other way round".to_owned(),
        );
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, Draft, Fence, Generation, Identity, Session};

    fn ticket() -> Ticket {
        let identity = Identity { tenant: "t".try_into().unwrap(), id: "i".try_into().unwrap() };
        let (generation, digest) = (Generation::from([3; 8]), Digest([0; 32]));
        let draft = Draft { generation, digest, deadline: 100, not_before: 0, body_size: 5 };
        Ticket::unpack(draft.pack(&identity, "")).unwrap()
    }

    fn names(
        ticket: Ticket,
        (request, result): (u64, u64),
        homes: &[(Home, u64)],
    ) -> Vec<&'static str> {
        let kept =
            Kept { paper: Paper::Whole(Box::new(ticket)), request, result, homes: homes.to_vec() };
        judge(&kept).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_fits_together_is_not_told() {
        assert!(names(ticket(), (5, 0), &[(Home::Pending, 100)]).is_empty());
        assert!(names(ticket(), (5, 0), &[(Home::Delayed, 50)]).is_empty());
        assert!(names(ticket(), (0, 5), &[(Home::Finished, 900)]).is_empty());
        assert!(names(ticket(), (5, 5), &[(Home::Dead, 900)]).is_empty());
        let suspect = Ticket { lapses: 2, ..ticket() };
        assert!(names(suspect, (5, 0), &[(Home::Suspects, 100)]).is_empty());
        let fence = Some(Fence::new(Session::from([1; 8]), 1));
        assert!(names(Ticket { fence, ..ticket() }, (5, 0), &[(Home::Leased, 70)]).is_empty());
        // Its body was lost, and that ended it.
        assert!(names(ticket(), (0, 5), &[(Home::Dead, 900)]).is_empty());
    }

    #[test]
    fn what_does_not_is_told_by_name() {
        let fence = Some(Fence::new(Session::from([1; 8]), 1));
        let suspect = Ticket { lapses: 2, ..ticket() };
        for (ticket, sizes, homes, expected) in [
            (ticket(), (5, 0), &[][..], "no-home"),
            (ticket(), (5, 0), &[(Home::Pending, 100), (Home::Delayed, 50)], "two-homes"),
            (ticket(), (0, 0), &[(Home::Pending, 100)], "request-missing"),
            (ticket(), (5, 5), &[(Home::Pending, 100)], "record-of-the-living"),
            (ticket(), (0, 0), &[(Home::Finished, 900)], "record-missing"),
            (ticket(), (5, 5), &[(Home::Finished, 900)], "request-left"),
            (ticket(), (5, 0), &[(Home::Pending, 99)], "wrong-place"),
            (ticket(), (5, 0), &[(Home::Delayed, 100)], "wrong-place"),
            (ticket(), (0, 5), &[(Home::Finished, u64::MAX)], "wrong-place"),
            (suspect, (5, 0), &[(Home::Pending, 100)], "wrong-set"),
            (ticket(), (5, 0), &[(Home::Suspects, 100)], "wrong-set"),
            (Ticket { fence, ..ticket() }, (5, 0), &[(Home::Pending, 100)], "owner-without-lease"),
        ] {
            assert_eq!(names(ticket, sizes, homes), [expected]);
        }
        let broken = Kept { paper: Paper::Broken, request: 5, result: 0, homes: vec![] };
        assert_eq!(judge(&broken)[0].0, "ticket-unreadable");
    }
}
