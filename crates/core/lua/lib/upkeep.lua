-- upkeep: what both claim and the reclaimer's scripts do on the way, a bounded number at a time.

local function due_of(keys, now, limit)
  return redis.call('ZRANGEBYSCORE', keys.delayed, '-inf', digits(now), 'LIMIT', 0, limit)
end

-- Moves what is due from `delayed` to where it is claimed from. Returns what was moved.
local function promote_due(keys, now, due)
  local tickets, pending, suspects, moved = tickets_in(keys.ticket, due), {}, {}, {}
  for at, handle in ipairs(due) do
    local ticket = tickets[at]
    if not readable(ticket) then
      -- Claim ends it, with a record; its own deadline is lost with its ticket.
      put(pending, digits(now + 1), handle)
      moved[#moved + 1] = handle
    elseif handle_in(ticket, handle:sub(17)) == handle then
      put(suspected(ticket) and suspects or pending, digits(deadline_in(ticket)), handle)
      moved[#moved + 1] = handle
    end
  end
  if #suspects > 0 then
    -- Another type there must fail the call before its first write.
    redis.call('ZCARD', keys.suspects)
  end
  flush('ZADD', keys.pending, pending)
  flush('ZADD', keys.suspects, suspects)
  flush('ZREM', keys.delayed, due)
  return moved
end

-- Ends what waits past its deadline, looking at the heads of `pending` and `suspects` only; `publish` writes it. Returns
-- whether the limit was reached, the handles that ended, and how many were looked at.
local function expire_heads(keys, now, batch, limit)
  local ended, reached, seen = {}, false, 0
  for _, home in ipairs({'pending', 'suspects'}) do
    local late = redis.call('ZRANGEBYSCORE', keys[home], '-inf', digits(now), 'LIMIT', 0, limit)
    local tickets = tickets_in(keys.ticket, late)
    for at, handle in ipairs(late) do
      local ticket = tickets[at]
      -- What is no handle of ours has nothing to end: it only leaves.
      local ours = #handle == 32
      if ours and not readable(ticket) then
        finish(batch, handle, mend(keys, handle), UNUSABLE, 0, NO_ANSWER)
        ended[#ended + 1] = {handle, UNUSABLE}
      elseif ours and is_of(ticket, handle) then
        finish(batch, handle, ticket, DEADLINE_EXCEEDED, 0, NO_ANSWER)
        ended[#ended + 1] = {handle, DEADLINE_EXCEEDED}
      end
    end
    put(batch.left[home], unpack(late))
    reached = reached or #late == limit
    seen = seen + #late
  end
  return reached, ended, seen
end
