//! Defects that other queues over Redis had, each written into a script.

use crate::world::Slant;

/// A defect.
pub(crate) struct Seen {
    /// What goes wrong, as it was told elsewhere.
    pub(crate) defect: &'static str,
    pub(crate) file: &'static str,
    /// The scripts in whose calls it shows.
    pub(crate) scripts: &'static [&'static str],
    /// Texts that stand in the file exactly once, and what is put there.
    pub(crate) edits: &'static [(&'static str, &'static str)],
    pub(crate) slant: Option<Slant>,
}

impl Seen {
    /// The file, and the defect.
    pub(crate) fn name(&self) -> (String, String) {
        (self.file.to_owned(), self.defect.to_owned())
    }
}

/// Each of them.
pub(crate) const SEEN: &[Seen] = &[
    Seen {
        defect: "a claim batch that fails part-way, and keeps renewing what nobody was told of",
        file: "claim.lua",
        scripts: &["claim"],
        edits: &[
            (
                "      leased[2 * count - 1], leased[2 * count] = till, member\n",
                "      redis.call('ZADD', keys.leased, digits(expiry), member)\n",
            ),
            (
                "      finish(ends(), handle, mend(keys, handle), UNUSABLE, 0, NO_ANSWER)\n",
                "      do return redis.error_reply('ERR a ticket that is none') end\n",
            ),
        ],
        slant: Some(Slant::Damaged),
    },
    Seen {
        defect: "a finish that deletes the claim before the push that can fail",
        file: "settle.lua",
        scripts: &["settle"],
        edits: &[
            ("flush('ZREM', keys.leased, owners)\n", ""),
            (
                "-- What sleeps until the next due time",
                "flush('ZREM', keys.leased, owners)\n-- What sleeps until the next due time",
            ),
        ],
        slant: Some(Slant::Mistyped),
    },
    Seen {
        defect: "a reclaim without a lapse count",
        file: "reclaim.lua",
        scripts: &["reclaim"],
        edits: &[("      lapses = lapses + 1\n", "")],
        slant: None,
    },
    Seen {
        defect: "refused heads that block the window",
        file: "claim.lua",
        scripts: &["claim"],
        edits: &[
            (
                "    first = redis.call('ZRANGEBYSCORE', keys.pending, '(' .. digits(now), '+inf'",
                "    first = redis.call('ZRANGEBYSCORE', keys.pending, '-inf', '+inf'",
            ),
            (
                "    handles[at], deadlines[at] = first[2 * at - 1], deadline\n",
                "    if deadline > now then\n      handles[#handles + 1], deadlines[#handles + 1] = first[2 * at - 1], deadline\n    end\n",
            ),
        ],
        slant: None,
    },
    Seen {
        defect: "a duplicate id that overwrites a live one",
        file: "submit.lua",
        scripts: &["submit"],
        edits: &[(
            "    if home == 'nowhere' then\n",
            "    if home == 'nowhere' or home ~= 'finished' and home ~= 'dead' and kept:sub(19, 50) ~= draft:sub(19, 50) then\n",
        )],
        slant: None,
    },
    Seen {
        defect: "entries that can't be decoded are dropped",
        file: "claim.lua",
        scripts: &["claim"],
        edits: &[
            ("      finish(ends(), handle, mend(keys, handle), UNUSABLE, 0, NO_ANSWER)\n", ""),
            ("      ended[#ended + 1] = {handle, UNUSABLE}\n", ""),
        ],
        slant: Some(Slant::Damaged),
    },
    Seen {
        defect: "a fence by id without generation",
        file: "settle.lua",
        scripts: &["settle"],
        edits: &[(
            "  local named = whole and is_of(ticket, handle)\n",
            "  local named = whole\n  if named then\n    handle = handle_in(ticket, key)\n    member = fence .. '|' .. handle\n    held[row] = redis.call('ZSCORE', keys.leased, member)\n  end\n",
        )],
        slant: None,
    },
    Seen {
        defect: "a missing owner is treated as free",
        file: "settle.lua",
        scripts: &["settle"],
        edits: &[(
            "  if repeated or not held[row] then\n",
            "  local free = named and ticket:sub(87, 118) == NO_FENCE\n  if repeated or not free and not held[row] then\n",
        )],
        slant: None,
    },
    Seen {
        defect: "the renewal of a foreign lease",
        file: "renew.lua",
        scripts: &["renew"],
        edits: &[(
            "  local ticket = tickets[names[at]]\n",
            "  local ticket = tickets[names[at]]\n  owners[at] = (readable(ticket) and ticket:sub(87, 118) or cut(owners[at], 1, 32)) .. '|' .. handle\n  held[at] = redis.call('ZSCORE', leased, owners[at])\n",
        )],
        slant: None,
    },
    Seen {
        defect: "two copies after a crash in retry",
        file: "settle.lua",
        scripts: &["settle"],
        edits: &[
            ("flush('ZADD', keys.delayed, delayed)\n", ""),
            (
                "-- What sleeps until the next due time",
                "flush('ZADD', keys.delayed, delayed)\n-- What sleeps until the next due time",
            ),
        ],
        slant: Some(Slant::Mistyped),
    },
    Seen {
        defect: "a record is published, and then the lease is found lost",
        file: "settle.lua",
        scripts: &["settle"],
        edits: &[(
            "  if repeated or not held[row] then\n",
            "  if word == 'a' and named then\n    redis.call('HSET', keys.result, key, answer)\n  end\n  if repeated or not held[row] then\n",
        )],
        slant: None,
    },
    Seen {
        defect: "a sweep that removes a newer generation",
        file: "sweep.lua",
        scripts: &["sweep"],
        edits: &[("    if not whole or is_of(ticket, handle) then\n", "    if true then\n")],
        slant: Some(Slant::Damaged),
    },
    Seen {
        defect: "a repeat of a claim that does not renew",
        file: "claim.lua",
        scripts: &["claim"],
        edits: &[("    redis.call('ZADD', keys.leased, 'XX', unpack(till))\n", "")],
        slant: None,
    },
    Seen {
        defect: "a late claim with a smaller number is honoured",
        file: "claim.lua",
        scripts: &["claim"],
        edits: &[("if last and call < last then\n", "if false then\n")],
        slant: None,
    },
    Seen {
        defect: "an outage is forgiven for the first call only",
        file: "lib/beat.lua",
        scripts: &["reclaim", "renew"],
        edits: &[("    put(fields, 'forgiven_to', digits(pardon))\n", "")],
        slant: None,
    },
];
