//! Faults of `settle`.

use super::{Mutant, of};
use crate::world::Slant;

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "settle",
        "settle.lua",
        "anybody's fence settles",
        "if repeated or not held[row] then",
        "if repeated then",
    ),
    of(
        "settle",
        "settle.lua",
        "a lease twice in one call is settled twice",
        "if repeated or not held[row] then",
        "if not held[row] then",
    ),
    of(
        "settle",
        "settle.lua",
        "a repeat is taken for a stranger",
        "elseif ticket:sub(127, 158) == fence then",
        "elseif false then",
    ),
    of(
        "settle",
        "settle.lua",
        "a lease of a generation that is no more stays",
        "  elseif not named then\n    owners[#owners + 1] = member\n    answers[row] = 'gone'\n",
        "  elseif not named then\n    answers[row] = 'gone'\n",
    )
    .when(Slant::Damaged),
    of(
        "settle",
        "settle.lua",
        "a lease whose ticket is lost gets no record",
        "    record_end(batch, key, handle, ticket, UNUSABLE, 0, NO_ANSWER)\n",
        "",
    )
    .when(Slant::Damaged),
    of(
        "settle",
        "settle.lua",
        "what was sent costs no attempt",
        "if word == 'r' and how[2] == 0 then",
        "if word == 'r' then",
    ),
    of(
        "settle",
        "settle.lua",
        "what was not sent costs an attempt",
        "if word == 'r' and how[2] == 0 then",
        "if false then",
    ),
    of(
        "settle",
        "settle.lua",
        "the failure is not kept",
        "    if how[3] ~= '' then\n      rest",
        "    if false then\n      rest",
    ),
    of(
        "settle",
        "settle.lua",
        "the settle is not remembered",
        ".. fence .. word .. rest",
        ".. cut(ticket, 127, 159) .. rest",
    ),
    of(
        "settle",
        "settle.lua",
        "the ticket still names its owner",
        ".. NO_FENCE .. cut(ticket, 119, 126) ..",
        ".. cut(ticket, 87, 126) ..",
    ),
    of(
        "settle",
        "settle.lua",
        "a retry may start after the deadline",
        "local start = word == 't' and now + how[2] or now",
        "local start = now",
    ),
    of(
        "settle",
        "settle.lua",
        "a retry may start at the deadline",
        "if asked or start >= deadline then",
        "if asked or start > deadline then",
    ),
    of(
        "settle",
        "settle.lua",
        "a flag is ignored",
        "if asked or start >= deadline then",
        "if start >= deadline then",
    ),
    of(
        "settle",
        "settle.lua",
        "the deadline is ignored",
        "if asked or start >= deadline then",
        "if asked then",
    ),
    of(
        "settle",
        "settle.lua",
        "a flagged one ends as late",
        "local outcome = asked and CANCELLED or DEADLINE_EXCEEDED",
        "local outcome = DEADLINE_EXCEEDED",
    ),
    of("settle", "settle.lua", "the lease stays", "flush('ZREM', keys.leased, owners)\n", ""),
    of("settle", "settle.lua", "no record is published", "publish(batch, keys)\n", ""),
    of(
        "settle",
        "settle.lua",
        "a suspect waits among the others",
        "put(suspected(ticket) and suspects or pending, digits(deadline), handle)",
        "put(pending, digits(deadline), handle)",
    )
    .when(Slant::Worn),
    of(
        "settle",
        "settle.lua",
        "a burial forgets the gateway's status",
        "local status = how[3] ~= '' and struct.unpack('>I2', how[3], 2) or 0",
        "local status = 0",
    ),
    of(
        "settle",
        "settle.lua",
        "the first of the delayed rings no bell",
        "local first = soonest and",
        "local first = false and",
    ),
    of(
        "settle",
        "settle.lua",
        "a slot under a limit rings no bell",
        "if #pending > 0 or first or freed or",
        "if #pending > 0 or first or",
    ),
    of(
        "settle",
        "settle.lua",
        "a slot for suspects rings no bell",
        "or freed or redis.call('EXISTS', keys.suspects) == 1 then",
        "or freed then",
    )
    .when(Slant::Worn),
    of(
        "settle",
        "settle.lua",
        "what comes back rings no bell",
        "if #pending > 0 or first or",
        "if first or",
    ),
    of(
        "settle",
        "settle.lua",
        "an empty fence has settled before",
        "    elseif fence == NO_FENCE then\n",
        "    elseif false then\n",
    ),
    of("settle", "settle.lua", "any number of rows is taken", " or #rows > 3 * MOST_ROWS", "")
        .when(Slant::Spoiled),
    of(
        "settle",
        "settle.lua",
        "a retry without its failure is taken",
        " or (word == 't' and failure == '')",
        "",
    )
    .when(Slant::Spoiled),
    of(
        "settle",
        "settle.lua",
        "an answer without a head is taken",
        " or #rows[at + 2] < how[4]",
        "",
    )
    .when(Slant::Spoiled),
    of(
        "settle",
        "settle.lua",
        "a status that does not fit is taken",
        "(word == 'a' and number > 65535)",
        "false",
    )
    .when(Slant::Spoiled),
    of(
        "settle",
        "settle.lua",
        "any outcome is buried",
        "(word == 'b' and (number < GAVE_UP or number > TOO_LARGE))",
        "false",
    )
    .when(Slant::Spoiled),
    of(
        "settle",
        "settle.lua",
        "a member of any length is taken",
        "if #member ~= 65 or not how",
        "if not how",
    )
    .when(Slant::Spoiled),
];
