//! Faults of `reclaim`.

use super::{Mutant, of};
use crate::world::Slant;

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "reclaim",
        "reclaim.lua",
        "a lease that runs is taken",
        "local due = redis.call('ZRANGEBYSCORE', keys.leased, '-inf', digits(now)",
        "local due = redis.call('ZRANGEBYSCORE', keys.leased, '-inf', '+inf'",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "the limit is ignored",
        "'-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, limit)",
        "'-inf', digits(now), 'WITHSCORES')",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "a named lease need not be held",
        "(seen[member] or not redis.call('ZSCORE', keys.leased, member))",
        "seen[member]",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "a lease named twice is ended twice",
        "if named and (seen[member] or not",
        "if named and (not",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "a lease of a generation that is no more is taken for this one",
        "elseif readable(ticket) and handle_in(ticket, key) ~= handle then",
        "elseif false then",
    )
    .when(Slant::Damaged),
    of(
        "reclaim",
        "reclaim.lua",
        "a request that is lost is given back",
        "elseif not readable(ticket) or redis.call('HEXISTS', keys.request, key) == 0 then",
        "elseif not readable(ticket) then",
    )
    .when(Slant::Damaged),
    of(
        "reclaim",
        "reclaim.lua",
        "an outage is charged",
        "charge = expiry[member] <= pardon and 'forgiven' or 'lapse'",
        "charge = 'lapse'",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "every lapse is forgiven",
        "charge = expiry[member] <= pardon and 'forgiven' or 'lapse'",
        "charge = 'forgiven'",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "a lapse is not counted",
        "      lapses = lapses + 1\n",
        "      lapses = lapses\n",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "a forgiven lapse is not counted",
        "      forgiven = forgiven + 1\n",
        "      forgiven = forgiven\n",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "the ticket still names its owner",
        ".. NO_FENCE .. ticket:sub(119, 159)",
        ".. ticket:sub(87, 159)",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "the loss is not kept as failure",
        "struct.pack('>BI2I8', 11, 0, now)",
        "ticket:sub(160, 170)",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "a flag is ignored",
        "    if bit.band(ticket:byte(2), 1) == 1 then\n      outcome = CANCELLED",
        "    if false then\n      outcome = CANCELLED",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "one lapse too many is allowed",
        "charge == 'lapse' and lapses >= most",
        "charge == 'lapse' and lapses > most",
    )
    .when(Slant::Worn),
    of(
        "reclaim",
        "reclaim.lua",
        "a pardon kills by lapses of before",
        "charge == 'lapse' and lapses >= most",
        "lapses >= most",
    )
    .when(Slant::Worn),
    of(
        "reclaim",
        "reclaim.lua",
        "forgiven lapses never end it",
        "charge == 'forgiven' and forgiven >= 4 * most",
        "false",
    )
    .when(Slant::Worn),
    of(
        "reclaim",
        "reclaim.lua",
        "forgiven lapses weigh as lapses",
        "charge == 'forgiven' and forgiven >= 4 * most",
        "charge == 'forgiven' and forgiven >= most",
    )
    .when(Slant::Worn),
    of(
        "reclaim",
        "reclaim.lua",
        "the deadline is ignored",
        "elseif deadline_in(ticket) <= now then",
        "elseif false then",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "an end by deadline comes before the last lapse",
        "    elseif charge == 'lapse' and lapses",
        "    elseif deadline_in(ticket) > now and charge == 'lapse' and lapses",
    )
    .when(Slant::Worn),
    of(
        "reclaim",
        "reclaim.lua",
        "a suspect waits among the others",
        "put(suspected(ticket) and suspects or pending, digits(deadline_in(ticket)), handle)",
        "put(pending, digits(deadline_in(ticket)), handle)",
    )
    .when(Slant::Worn),
    of("reclaim", "reclaim.lua", "the lease stays", "flush('ZREM', keys.leased, owners)\n", ""),
    of(
        "reclaim",
        "reclaim.lua",
        "the ticket is not written",
        "flush('HSET', keys.ticket, tickets)\n",
        "",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "the beat is not watched",
        "  beat, pardon, longest = watch_beat(keys.meta, now)\n",
        "",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "leases of a clock that went back stay",
        "  if longest > 0 then\n    ahead",
        "  if false then\n    ahead",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "what is lowered knows no limit",
        "'LIMIT', 0, limit - #members)",
        "'LIMIT', 0, 256)",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "what is lowered is not told",
        "  answers[#answers + 1] = {'lowered', member:sub(34)}\n",
        "",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "nobody is woken",
        "if #pending > 0 or #owners > 0 and redis.call('EXISTS', keys.suspects) == 1 then",
        "if false then",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "a place under a limit rings no bell",
        "  if limits[1] or limits[2] then",
        "  if false then",
    ),
    of(
        "reclaim",
        "reclaim.lua",
        "any number of rows is taken",
        " or #ARGV - 1 > 2 * MOST_ROWS",
        "",
    )
    .when(Slant::Spoiled),
    of(
        "reclaim",
        "reclaim.lua",
        "an operator's release is charged",
        "    local charge = 'none'\n    if not named then",
        "    local charge = 'lapse'\n    if not named then",
    ),
    of("reclaim", "reclaim.lua", "any limit is taken", "limit > 256 or (#ARGV", "(#ARGV")
        .when(Slant::Spoiled),
];
