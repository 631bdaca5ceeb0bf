//! Faults of `submit`.

use super::{Mutant, of};
use crate::world::Slant;

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "submit",
        "submit.lua",
        "other bytes under a known id are taken for the same",
        "{kept:sub(19, 50) == draft:sub(19, 50) and 'known' or 'reused', home, kept}",
        "{'known', home, kept}",
    ),
    of(
        "submit",
        "submit.lua",
        "a repeat does not move the end of retention",
        "if (home == 'finished' or home == 'dead') and tonumber(score) < now + guard then",
        "if false then",
    ),
    of(
        "submit",
        "submit.lua",
        "other bytes do not move the end of retention",
        "if (home == 'finished' or home == 'dead') and tonumber(score) < now + guard then",
        "if kept:sub(19, 50) == draft:sub(19, 50) and (home == 'finished' or home == 'dead') and tonumber(score) < now + guard then",
    ),
    of(
        "submit",
        "submit.lua",
        "a repeat brings the end of retention nearer",
        "and tonumber(score) < now + guard then",
        "then",
    ),
    of(
        "submit",
        "submit.lua",
        "a passed deadline is accepted",
        "elseif deadline <= now then",
        "elseif false then",
    ),
    of(
        "submit",
        "submit.lua",
        "a deadline of this very ms is accepted",
        "elseif deadline <= now then",
        "elseif deadline < now then",
    ),
    of(
        "submit",
        "submit.lua",
        "a queue takes one request too many",
        "elseif live >= capacity then",
        "elseif live > capacity then",
    )
    .when(Slant::Tight),
    of(
        "submit",
        "submit.lua",
        "the bytes of a batch are not added up",
        "elseif bytes + added + #request > room then",
        "elseif bytes + #request > room then",
    )
    .when(Slant::Tight),
    of(
        "submit",
        "submit.lua",
        "an undeclared queue takes requests",
        "elseif not capacity or not room then\n    answers[#answers + 1] = {'undeclared'}\n",
        "elseif false then\n    answers[#answers + 1] = {'undeclared'}\n",
    ),
    of(
        "submit",
        "submit.lua",
        "an id whose ticket is broken is taken anew",
        "elseif kept then",
        "elseif false then",
    )
    .when(Slant::Damaged),
    of(
        "submit",
        "submit.lua",
        "a batch counts as one submission",
        "'seq', #new) - #new",
        "'seq', 1) - 1",
    ),
    of("submit", "submit.lua", "not_before is ignored", "if start > now then", "if false then"),
    of(
        "submit",
        "submit.lua",
        "lanes are not counted",
        "  count_lane(lanes, lane_in(ticket), 1, #request)\n",
        "",
    ),
    of(
        "submit",
        "submit.lua",
        "an id twice in one call is accepted twice",
        "    tickets[key] = draft:sub(1, 66) .. struct.pack('>I8', now) .. draft:sub(75)\n",
        "",
    ),
    of(
        "submit",
        "submit.lua",
        "nobody is woken",
        "ring(keys.bell)\nreturn answers",
        "return answers",
    ),
    of(
        "submit",
        "submit.lua",
        "the time of submission is not kept",
        "    .. struct.pack('>I8', now) .. draft:sub(75)\n  local handle",
        "    .. draft:sub(67)\n  local handle",
    ),
    of(
        "submit",
        "submit.lua",
        "a start after the deadline is accepted",
        "if #ARGV[at] ~= 16 or start >= deadline then",
        "if #ARGV[at] ~= 16 then",
    )
    .when(Slant::Spoiled),
    of(
        "submit",
        "submit.lua",
        "a key of any length is accepted",
        "if #ARGV[at] ~= 16 or start >= deadline then",
        "if start >= deadline then",
    )
    .when(Slant::Spoiled),
    of(
        "submit",
        "submit.lua",
        "a time to keep below 0 is accepted",
        "if not guard or guard < 0 or",
        "if not guard or",
    )
    .when(Slant::Spoiled),
    of("submit", "submit.lua", "any number of rows is taken", " or #ARGV - 1 > 3 * MOST_ROWS", "")
        .when(Slant::Spoiled),
    of(
        "submit",
        "submit.lua",
        "the bytes are not counted",
        "write_counts(keys, added, lanes)",
        "write_counts(keys, 0, lanes)",
    ),
    of(
        "submit",
        "submit.lua",
        "the request is not written",
        "flush('HSET', keys.request, requests)\n",
        "",
    ),
];
