//! Why some made mutants are none: the script does the same without what was changed, or differs only where no script and no
//! caller ever leads.

/// Two writes in the other order.
const BOTH: &str = "neither can fail, since what lies under both keys was read before, and neither needs the other";
/// A check of a type that is met late.
const TYPES: &str = "found out by tests/scripts/invariants/types.rs::a_key_of_another_type_fails_a_call_before_its_first_write_or_not_at_all: a walk seldom has a suspect, an end and another type there in one call";
/// What is counted towards the most that one call handles.
const ITEMS: &str = "found out by tests/scripts/invariants/bounds.rs::a_claim_handles_256_items_in_all_and_says_that_there_are_more: a walk has 110 ids";
/// What only a counter shows that is none.
const SPOILED: &str = "found out by tests/scripts/invariants/loss.rs::a_counter_that_somebody_spoiled_refuses_what_goes_by_it_and_holds_up_nothing_else: no walk spoils a counter";
/// What only a call without rows meets.
const NO_ROWS: &str = "found out by tests/scripts/invariants/arguments.rs::a_call_without_rows_is_answered_with_none: no walk sends one";
/// Fewer commands for the same.
const FEWER: &str = "found out by tests/scripts/costs.rs::a_batch_costs_the_commands_and_bytes_that_are_written_here: it only saves commands";
/// The same homes in another order.
const SOONER: &str = "found out by tests/scripts/costs.rs::a_look_at_answers_asks_for_all_tickets_at_once_and_for_two_things_of_each_request: it only saves commands";
/// What only a request shows that stayed beside its record.
const LEFT: &str = "found out by tests/scripts/invariants/retention.rs::what_was_left_of_a_request_beside_its_record_is_given_back_with_it: no walk leaves one";
/// What only a member shows that is no handle.
const STRANGE: &str = "found out by tests/scripts/invariants/order.rs::a_member_that_is_no_handle_leaves_where_it_waits_and_holds_up_none: no walk puts one there";
/// What only a member shows that is no lease.
const STRANGE_LEASE: &str = "found out by tests/scripts/invariants/order.rs::a_member_that_is_no_lease_leaves_when_it_lapses_and_holds_up_none: no walk puts one there";
/// A read that tells nothing new.
const SAVES: &str = "it only saves reads that find nothing, or what is known already";

/// File, mutant, reason.
pub(crate) const REASONS: &[(&str, &str, &str)] = &[
    (
        "audit.lua",
        "check removed: fence ~= NO_FENCE in fence ~= NO_FENCE and redis.call('ZSCORE', keys.leased, fence .. '|' .. handle)",
        "it only saves a read whose answer is not used: nothing is ever leased under the empty fence",
    ),
    (
        "cancel.lua",
        "check removed: #record >= 2 in record and #record >= 2 and {'ended', record:byte(2)}",
        "only a record that no script wrote is shorter",
    ),
    (
        "cancel.lua",
        "swapped: flush('HSET', keys.ticket, tickets) / for home, handles in p … ed) do flush('ZREM', keys[home], handles) end",
        BOTH,
    ),
    (
        "cancel.lua",
        "swapped: for home, handles in pairs(removed) do flush('ZREM', keys[ho … UBLISH', keys.cancel, table.concat(told)) end",
        "whoever is told cannot ask before the script is through",
    ),
    (
        "claim.lua",
        "check removed: count > 0 in count > 0 and size < along",
        "without leases the read has no fields, which fails and is passed over",
    ),
    (
        "claim.lua",
        "check removed: at > rest in count == room or at > rest",
        "found out by tests/scripts/invariants/bounds.rs::what_a_claim_ends_for_want_of_a_ticket_counts_among_its_256_items: a walk has 110 ids",
    ),
    ("claim.lua", "write dropped: rest = rest - seen", ITEMS),
    (
        "claim.lua",
        "check removed: #handle == 32 in #handle == 32 and struct.unpack('>I8', handle)",
        STRANGE,
    ),
    (
        "claim.lua",
        "check removed: 0 in #handle == 32 and struct.unpack('>I8', handle) or 0",
        STRANGE,
    ),
    ("claim.lua", "check removed: #handle ~= 32", STRANGE),
    ("claim.lua", "write dropped: put(removed[home], handle)", STRANGE),
    (
        "claim.lua",
        "write dropped: room = math.min(room, rest)",
        "the loop over the candidates ends after `rest` of them all the same; only more of them are read",
    ),
    (
        "claim.lua",
        "check removed: tonumber(next_due) <= now in next_due and tonumber(next_due) <= now",
        SAVES,
    ),
    (
        "claim.lua",
        "check removed: tonumber(first[2]) <= now in first[1] and tonumber(first[2]) <= now",
        SAVES,
    ),
    (
        "claim.lua",
        "check removed: tonumber(head[2]) <= now in head[1] and tonumber(head[2]) <= now",
        SAVES,
    ),
    (
        "claim.lua",
        "check removed: head[1] in head[1] and redis.call('ZCOUNT', keys.suspects, '(' .. digits(now), '+inf')",
        SAVES,
    ),
    (
        "claim.lua",
        "check removed: lease < longest in out == 0 and lease < longest",
        "the longest written anew is still the longest",
    ),
    ("claim.lua", "check removed: from_head and #removed.pending > 0", FEWER),
    (
        "claim.lua",
        "return removed: break",
        "what made it end stays so, and nothing is taken in the rounds that are left",
    ),
    (
        "claim.lua",
        "swapped: flush('HSET', keys.ticket, tickets) / flush('ZADD', keys.leased, leased)",
        BOTH,
    ),
    (
        "claim.lua",
        "swapped: if count > 0 and (lease > longest or out == 0 and lease < lo … ence:sub(17) .. stamp .. table.concat(taken))",
        BOTH,
    ),
    ("depth.lua", "check removed: 1 in meta[2] == '1' and 1", "Redis tells `true` as 1"),
    ("policy.lua", "swapped: flush('HDEL', meta, removed) / ring(bell)", BOTH),
    (
        "policy.lua",
        "swapped: flush('HSET', meta, changed) / flush('HDEL', meta, removed)",
        "no field is in both",
    ),
    (
        "promote.lua",
        "check removed: (#ARGV - 1) % 2 ~= 0 in not limit or limit < 1 or limit > 25 … GV - 1) % 2 ~= 0 or #ARGV - 1 > 2 * MOST_ROWS",
        "a row without its due time is refused by the check of each row",
    ),
    (
        "promote.lua",
        "check removed: due in due and tonumber(due) == seen and redis.call('HGET', keys.ticket, handle:sub(17))",
        "what is not there is no number, and equals none",
    ),
    (
        "promote.lua",
        "swapped: redis.call('ZADD', suspected(ticket) and keys.suspects or ke … e) / redis.call('ZREM', keys.delayed, handle)",
        BOTH,
    ),
    ("promote.lua", "write dropped: redis.call('ZCARD', keys.suspects)", TYPES),
    ("reclaim.lua", "check removed: #member ~= 65", STRANGE_LEASE),
    ("reclaim.lua", "write dropped: put(owners, member)", STRANGE_LEASE),
    (
        "reclaim.lua",
        "check removed: #members > 0 in #members > 0 and tonumber((redis.call('HGET', keys.meta, 'max_lapses')))",
        "it only saves a read whose answer is not used",
    ),
    (
        "reclaim.lua",
        "check removed: named in named and (seen[member] or not redis.call('ZSCORE', keys.leased, member))",
        "what was found by its score is there, and once",
    ),
    (
        "reclaim.lua",
        "swapped: flush('HSET', keys.meta, beat) / flush('ZADD', keys.leased, lowered)",
        BOTH,
    ),
    (
        "reclaim.lua",
        "swapped: flush('HSET', keys.ticket, tickets) / flush('ZADD', keys.pending, pending)",
        BOTH,
    ),
    (
        "reclaim.lua",
        "swapped: flush('ZADD', keys.leased, lowered) / flush('HSET', keys.ticket, tickets)",
        BOTH,
    ),
    (
        "reclaim.lua",
        "swapped: flush('ZADD', keys.pending, pending) / flush('ZADD', keys.suspects, suspects)",
        BOTH,
    ),
    (
        "reclaim.lua",
        "swapped: flush('ZADD', keys.suspects, suspects) / flush('ZREM', keys.leased, owners)",
        BOTH,
    ),
    (
        "reclaim.lua",
        "swapped: if #suspects > 0 then redis.call('ZCARD', keys.suspects) end / publish(batch, keys)",
        TYPES,
    ),
    (
        "redrive.lua",
        "swapped: redis.call('HSET', keys.ticket, key, fresh) / redis.call('ZA … ing, digits(deadline), handle_in(fresh, key))",
        BOTH,
    ),
    (
        "redrive.lua",
        "swapped: redis.call('ZADD', keys.pending, digits(deadline), handle_in(fresh, key)) / redis.call('ZREM', keys.dead, old)",
        BOTH,
    ),
    (
        "redrive.lua",
        "swapped: redis.call('ZREM', keys.dead, old) / redis.call('HDEL', keys.result, key)",
        BOTH,
    ),
    (
        "redrive.lua",
        "swapped: write_counts(keys, bytes, lanes) / if moved then ring(keys.bell) end",
        BOTH,
    ),
    (
        "register.lua",
        "check removed: #rows[at + 1] < 8 in #rows[at + 1] < 8 or struct.unpack('>I8', rows[at + 1], 1) + age < now",
        "only a row that no script wrote is shorter",
    ),
    (
        "register.lua",
        "swapped: redis.call('HSET', registry, '-' .. name, struct.pack('>I8', now)) / redis.call('HDEL', registry, name)",
        "both write one key, so that the second fails only where the first does, and neither needs the other",
    ),
    (
        "renew.lua",
        "check removed: #owners > 0 in #owners > 0 and redis.call('ZMSCORE', leased, unpack(owners))",
        NO_ROWS,
    ),
    (
        "renew.lua",
        "swapped: flush('HSET', meta, beat) / if #till > 0 then redis.call('ZADD', leased, 'XX', unpack(till)) end",
        BOTH,
    ),
    ("settle.lua", "return removed: return {}", NO_ROWS),
    (
        "settle.lua",
        "check removed: soonest in soonest and redis.call('ZRANGE', keys.delayed, 0, 0, 'WITHSCORES')[2]",
        "it only saves a read whose answer is not used",
    ),
    (
        "settle.lua",
        "swapped: flush('HSET', keys.ticket, tickets) / flush('ZADD', keys.pending, pending)",
        BOTH,
    ),
    (
        "settle.lua",
        "swapped: flush('ZADD', keys.delayed, delayed) / flush('ZREM', keys.leased, owners)",
        BOTH,
    ),
    (
        "settle.lua",
        "swapped: flush('ZADD', keys.pending, pending) / flush('ZADD', keys.suspects, suspects)",
        BOTH,
    ),
    (
        "settle.lua",
        "swapped: flush('ZADD', keys.suspects, suspects) / flush('ZADD', keys.delayed, delayed)",
        BOTH,
    ),
    (
        "settle.lua",
        "swapped: if #suspects > 0 then redis.call('ZCARD', keys.suspects) end / publish(batch, keys)",
        TYPES,
    ),
    ("submit.lua", "check removed: kept in kept and readable(kept)", "`readable` asks that itself"),
    (
        "submit.lua",
        "check removed: lane ~= '' in limits ~= '' and lane ~= '' and limit_met(lane, here, row, #request)",
        "every request has a tenant, so that no lane is without a name",
    ),
    (
        "submit.lua",
        "check removed: requests in requests and bytes and till and {requests, bytes, till}",
        SPOILED,
    ),
    (
        "submit.lua",
        "check removed: bytes in requests and bytes and till and {requests, bytes, till}",
        SPOILED,
    ),
    (
        "submit.lua",
        "check removed: till in requests and bytes and till and {requests, bytes, till}",
        SPOILED,
    ),
    ("submit.lua", "check removed: not bytes or not sequence or not here", SPOILED),
    ("submit.lua", "check removed: not bytes in not bytes or not sequence or not here", SPOILED),
    ("submit.lua", "check removed: not sequence in not bytes or not sequence or not here", SPOILED),
    ("submit.lua", "check removed: not here in not bytes or not sequence or not here", SPOILED),
    ("submit.lua", "write dropped: answers[row] = 'spoiled'", SPOILED),
    (
        "submit.lua",
        "check removed: whole in whole and new[key]",
        "what this call has accepted is whole",
    ),
    (
        "submit.lua",
        "swapped: flush('HSET', keys.ticket, new_tickets) / flush('ZADD', keys.pending, pending)",
        BOTH,
    ),
    (
        "submit.lua",
        "swapped: flush('ZADD', keys.delayed, delayed) / flush('HSET', keys.lanes, counts)",
        BOTH,
    ),
    (
        "submit.lua",
        "swapped: flush('ZADD', keys.pending, pending) / flush('ZADD', keys.delayed, delayed)",
        BOTH,
    ),
    (
        "submit.lua",
        "swapped: redis.call('HSET', keys.meta, 'seq', sequence + count, 'bytes', bytes + added) / ring(keys.bell)",
        BOTH,
    ),
    (
        "submit.lua",
        "swapped: flush('HSET', keys.lanes, counts) / redis.call('HSET', keys. … q', sequence + count, 'bytes', bytes + added)",
        BOTH,
    ),
    (
        "sweep.lua",
        "check removed: #rows[at + 1] < 24 in #rows[at + 1] < 24 or struct.unpack('>I8', rows[at + 1], 17) + age < now",
        "only a row that no script wrote is shorter",
    ),
    (
        "sweep.lua",
        "check removed: home == 'finished' in home == 'finished' and #due > 0",
        "it only keeps the bodies of the dead out of Lua: their lengths are the same",
    ),
    (
        "sweep.lua",
        "check removed: requests and #(requests[at] or '') in requests and #(request … ) or redis.call('HSTRLEN', keys.request, key)",
        FEWER,
    ),
    (
        "sweep.lua",
        "check removed: requests[at] in requests[at] or ''",
        "found out by tests/scripts/invariants/retention.rs::what_was_left_of_a_request_beside_its_record_is_given_back_with_it: no walk leaves one",
    ),
    (
        "sweep.lua",
        "swapped: if left then flush('HDEL', keys.request, fields) end / flush('HDEL', keys.result, fields)",
        BOTH,
    ),
    ("sweep.lua", "write dropped: left = left or requests[at]", LEFT),
    ("sweep.lua", "check removed: requests[at] in left or requests[at]", LEFT),
    (
        "sweep.lua",
        "swapped: flush('HDEL', keys.result, fields) / flush('HDEL', keys.ticket, fields)",
        BOTH,
    ),
    (
        "sweep.lua",
        "swapped: flush('HDEL', keys.ticket, fields) / if #due > 0 then -- The … REMRANGEBYRANK', keys[home], 0, #due - 1) end",
        BOTH,
    ),
    (
        "lib/ending.lua",
        "check removed: held[at] ~= 0 in lane ~= '' and held[at] ~= 0 and add(keys.lanes, name .. lane, held[at]) == 0",
        "adding nothing changes nothing, and a counter that comes to nothing is removed",
    ),
    (
        "lib/ending.lua",
        "check removed: sum.err:sub(1, 9) == 'WRONGTYPE' in type(sum) == 'table' and sum.err:sub(1, 9) == 'WRONGTYPE'",
        SPOILED,
    ),
    (
        "lib/ending.lua",
        "check removed: #request >= 9 in request and #request >= 9 and request:byte( … quest >= 3 + struct.unpack('>I2', request, 2)",
        "only a request that no script wrote lacks it",
    ),
    (
        "lib/ending.lua",
        "check removed: request:byte(1) == 1 in request and #request >= 9 and reques … quest >= 3 + struct.unpack('>I2', request, 2)",
        "only a request that no script wrote lacks it",
    ),
    (
        "lib/ending.lua",
        "check removed: #request >= 3 + struct.unpack('>I2', request, 2) in request  … quest >= 3 + struct.unpack('>I2', request, 2)",
        "only a request that no script wrote lacks it",
    ),
    (
        "lib/ending.lua",
        "swapped: flush('HSET', keys.result, batch.results) / flush('HSET', keys.ticket, batch.tickets)",
        BOTH,
    ),
    (
        "lib/ending.lua",
        "swapped: flush('HDEL', keys.request, batch.bodies) / redis.pcall('SPUBLISH', keys.ended, table.concat(batch.told))",
        "whoever is told cannot ask before the script is through",
    ),
    (
        "lib/home.lua",
        "check removed: fence ~= NO_FENCE in fence ~= NO_FENCE and redis.call('ZSCORE', keys.leased, fence .. '|' .. handle)",
        "it only saves a read whose answer is not used: nothing is ever leased under the empty fence",
    ),
    (
        "lib/home.lua",
        "check removed: ticket:sub(159, 159) == 'a' and ACKED_HOMES in ticket:sub(159, 159) == 'a' and ACKED_HOMES or HOMES",
        SOONER,
    ),
    ("lib/home.lua", "negated: ticket:sub(159, 159) == 'a'", SOONER),
    (
        "lib/home.lua",
        "check removed: ticket:sub(159, 159) == 'a' in ticket:sub(159, 159) == 'a' and ACKED_HOMES",
        "each of the homes is looked into, in whatever order",
    ),
    (
        "lib/upkeep.lua",
        "swapped: flush('ZADD', keys.suspects, suspects) / flush('ZREM', keys.delayed, due)",
        BOTH,
    ),
    (
        "lib/ticket.lua",
        "return removed: return ticket",
        "it only saves a copy: a ticket without an owner stays as it is",
    ),
    ("lib/upkeep.lua", "write dropped: seen = seen + #late", ITEMS),
    ("lib/upkeep.lua", "check removed: ours in ours and not readable(ticket)", STRANGE),
    ("lib/upkeep.lua", "check removed: ours in ours and is_of(ticket, handle)", STRANGE),
    ("lib/upkeep.lua", "negated: #suspects > 0", TYPES),
    ("lib/upkeep.lua", "write dropped: redis.call('ZCARD', keys.suspects)", TYPES),
    (
        "lib/upkeep.lua",
        "swapped: if #suspects > 0 then -- Another type there must fail the ca … s) end / flush('ZADD', keys.pending, pending)",
        TYPES,
    ),
    (
        "lib/upkeep.lua",
        "swapped: flush('ZADD', keys.pending, pending) / flush('ZADD', keys.suspects, suspects)",
        TYPES,
    ),
];
