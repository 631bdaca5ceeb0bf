//! Faults of `claim`.

use super::{Mutant, of};
use crate::world::Slant;

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "claim",
        "claim.lua",
        "a smaller call number is honoured",
        "if last and call < last then",
        "if false then",
    ),
    of("claim", "claim.lua", "a repeat leases anew", "if last == call then", "if false then"),
    of(
        "claim",
        "claim.lua",
        "a repeat does not renew",
        "        put(till, digits(expiry), member)\n",
        "",
    ),
    of(
        "claim",
        "claim.lua",
        "a repeat hands out what is not held any more",
        "and redis.call('ZSCORE', keys.leased, member) then",
        "then",
    ),
    of(
        "claim",
        "claim.lua",
        "a repeat goes on past deadline + lease",
        "      if expiry > now then\n",
        "      if true then\n",
    ),
    of(
        "claim",
        "claim.lua",
        "a repeat is not capped at the deadline",
        "      local expiry = math.min(now, deadline) + lease\n      if",
        "      local expiry = now + lease\n      if",
    ),
    of(
        "claim",
        "claim.lua",
        "a pause is ignored",
        "local room = paused and 0 or math.min(",
        "local room = math.min(",
    ),
    of(
        "claim",
        "claim.lua",
        "an in-flight limit is ignored",
        "limit and limit - out or free)",
        "free)",
    ),
    of(
        "claim",
        "claim.lua",
        "a limit counts from 0 at each call",
        "limit and limit - out or free)",
        "limit or free)",
    ),
    of("claim", "claim.lua", "what is due stays delayed", "  promote_due(keys, now, due)\n", ""),
    of(
        "claim",
        "claim.lua",
        "what is late is ended while the clock is doubted",
        "  if may_expire then\n    late",
        "  if true then\n    late",
    ),
    of(
        "claim",
        "claim.lua",
        "a clock beyond what it was trusted to show ends what is late",
        "local may_expire = now <= trusted_until",
        "local may_expire = trusted_until > 0",
    ),
    of(
        "claim",
        "claim.lua",
        "the last ms that is trusted is not",
        "local may_expire = now <= trusted_until",
        "local may_expire = now < trusted_until",
    ),
    of(
        "claim",
        "claim.lua",
        "a trusted time that is no number is taken",
        "or not budget or not trusted_until then",
        "or not budget then",
    )
    .when(Slant::Spoiled),
    of(
        "claim",
        "claim.lua",
        "what is late is leased while the clock is doubted",
        "first = redis.call('ZRANGEBYSCORE', keys.pending, '(' .. digits(now), '+inf'",
        "first = redis.call('ZRANGEBYSCORE', keys.pending, '-inf', '+inf'",
    ),
    of(
        "claim",
        "claim.lua",
        "a late suspect is leased while the clock is doubted",
        "local head = redis.call('ZRANGEBYSCORE', keys.suspects, '(' .. digits(now), '+inf'",
        "local head = redis.call('ZRANGEBYSCORE', keys.suspects, '-inf', '+inf'",
    )
    .when(Slant::Worn),
    of(
        "claim",
        "claim.lua",
        "a suspect is given to who may take none",
        "  if room > 0 and may_suspect and not (",
        "  if room > 0 and not (",
    )
    .when(Slant::Worn),
    of(
        "claim",
        "claim.lua",
        "a second suspect is leased",
        "and not (meta[4] and redis.call('ZSCORE', keys.leased, meta[4])) then\n    local head",
        "then\n    local head",
    )
    .when(Slant::Worn),
    of(
        "claim",
        "claim.lua",
        "a suspect goes before all others",
        "while candidates[place] and (candidates",
        "while false and (candidates",
    )
    .when(Slant::Worn),
    of(
        "claim",
        "claim.lua",
        "a suspect goes behind all others",
        "while candidates[place] and (candidates[place][2] < deadline\n        or",
        "while candidates[place] and (true\n        or",
    )
    .when(Slant::Worn),
    of(
        "claim",
        "claim.lua",
        "the lease that was taken as suspect is not remembered",
        "    redis.call('HSET', keys.meta, 'suspect', suspect)\n",
        "",
    )
    .when(Slant::Worn),
    of(
        "claim",
        "claim.lua",
        "a handle of another generation is leased",
        "    elseif handle_in(ticket, key) ~= handle then\n      put(removed[home], handle)",
        "    elseif false then\n      put(removed[home], handle)",
    )
    .when(Slant::Damaged),
    of(
        "claim",
        "claim.lua",
        "the first item must fit the budget",
        "if #taken > 0 and size + body > budget then",
        "if size + body > budget then",
    ),
    of(
        "claim",
        "claim.lua",
        "the byte budget is ignored",
        "if #taken > 0 and size + body > budget then",
        "if false then",
    ),
    of(
        "claim",
        "claim.lua",
        "an attempt is not counted",
        "struct.pack('>I4', attempts + 1)",
        "struct.pack('>I4', attempts)",
    ),
    of(
        "claim",
        "claim.lua",
        "the ticket does not name its owner",
        "ticket:sub(83, 86) .. fence\n",
        "ticket:sub(83, 118)\n",
    ),
    of(
        "claim",
        "claim.lua",
        "what is leased stays pending",
        "      put(removed[home], handle)\n      if home == 'suspects'",
        "      if home == 'suspects'",
    ),
    of(
        "claim",
        "claim.lua",
        "a lease is not capped at the deadline",
        "      local expiry = math.min(now, deadline) + lease\n      ticket",
        "      local expiry = now + 2 * lease\n      ticket",
    ),
    of(
        "claim",
        "claim.lua",
        "the longest lease is not raised",
        "if #taken > 0 and (out == 0 or lease > (tonumber(meta[5]) or 0)) then",
        "if false then",
    ),
    of(
        "claim",
        "claim.lua",
        "the longest lease is lowered while others run",
        "if #taken > 0 and (out == 0 or lease > (tonumber(meta[5]) or 0)) then",
        "if #taken > 0 then",
    ),
    of(
        "claim",
        "claim.lua",
        "a claim that leased nothing is not recorded",
        "redis.call('HSET', keys.sessions, session, fence:sub(17)",
        "redis.call(#taken > 0 and 'HSET' or 'HMGET', keys.sessions, session, fence:sub(17)",
    ),
    of(
        "claim",
        "claim.lua",
        "what ended on the way gets no record",
        "  publish(batch, keys)\n",
        "",
    ),
    of(
        "claim",
        "claim.lua",
        "late suspects are told as work that is left",
        "  suspects = redis.call('ZCOUNT', keys.suspects, '(' .. digits(now), '+inf')\n",
        "",
    )
    .when(Slant::Worn),
    of(
        "claim",
        "claim.lua",
        "an empty queue leaves its bell",
        "  redis.call('DEL', keys.bell)\n",
        "",
    ),
    of(
        "claim",
        "claim.lua",
        "a bell that rings is rung again",
        "  if tokens(keys.bell) == 0 then",
        "  if true then",
    ),
    of(
        "claim",
        "claim.lua",
        "the next due time is told as a moment",
        "math.max(0, tonumber(next_due) - now)",
        "tonumber(next_due)",
    ),
    of(
        "claim",
        "claim.lua",
        "more is said in a paused queue",
        "elseif busy or not paused and not (limit",
        "elseif busy or not (limit",
    ),
    of(
        "claim",
        "claim.lua",
        "any number of slots is taken",
        "or free > 256 or not lease",
        "or not lease",
    )
    .when(Slant::Spoiled),
    of(
        "claim",
        "claim.lua",
        "a fence of any length is taken",
        "local call = #fence == 32 and tonumber",
        "local call = tonumber",
    )
    .when(Slant::Spoiled),
    of(
        "claim",
        "claim.lua",
        "a lease of no length is taken",
        "not lease or lease <= 0 or not budget",
        "not lease or not budget",
    )
    .when(Slant::Spoiled),
];
