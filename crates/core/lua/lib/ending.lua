-- ending: gives generations their terminal record. `finish` gathers, `publish` writes all of them at once. It is a caller's
-- first write, unless that has asked `may_publish` before.
local ANSWERED, DEADLINE_EXCEEDED, CANCELLED, GAVE_UP, KILLED_WORKERS, UNUSABLE, TOO_LARGE = 1, 2, 3, 4, 5, 6, 7
local NO_ANSWER = '\0\0\0\0'
-- Where nobody has written the queue's policy yet: a day.
local UNDECLARED_RETENTION = 86400000

-- `left` may be given: what leaves `pending` and `suspects`.
local function endings(keys, now, left)
  return {request = keys.request, stamp = pack('>I8', now), now = now, results = {}, tickets = {}, finished = {}, dead = {},
    bodies = {}, told = {}, lanes = {}, bytes = 0, left = left or {pending = {}, suspects = {}}}
end

-- The lane that a request is counted under: its own, or its tenant's; none where lengths lie, so that one damaged ticket
-- does not fail the whole call. And where the names end.
local function lane_in(ticket)
  local most, more, high, low = byte(ticket, 188, 191)
  local last = 189 + 256 * most + more
  -- Where tenant and id end, and behind those, the lane begins.
  local tenant = low and 191 + 256 * high + low or #ticket
  high, low = byte(ticket, tenant + 1, tenant + 2)
  local from = low and tenant + 5 + 256 * high + low or #ticket + 3
  high, low = byte(ticket, from - 2, from - 1)
  if not low or #ticket < from - 1 + 256 * high + low then
    return '', last
  elseif high + low == 0 then
    return cut(ticket, 192, tenant), last
  end
  return cut(ticket, from, from - 1 + 256 * high + low), last
end

local function count_lane(lanes, lane, requests, bytes)
  local held = lanes[lane]
  if held then
    held[1], held[2] = held[1] + requests, held[2] + bytes
  else
    lanes[lane] = {requests, bytes}
  end
end

-- Adds to a counter, and returns it. One that somebody has spoiled holds up no end, and doctor tells of it; another type under
-- the key fails the call.
local function add(key, field, more)
  local sum = redis.pcall('HINCRBY', key, field, digits(more))
  if type(sum) == 'table' and sum.err:sub(1, 9) == 'WRONGTYPE' then
    error(sum)
  end
  return sum
end

-- Writes what was counted; a counter that comes to nothing is removed. Lanes come first: before a call's first write
-- nothing else asks what is under their key.
local function write_counts(keys, bytes, lanes)
  for lane, held in pairs(lanes) do
    for at, name in ipairs({'n|', 'b|'}) do
      if lane ~= '' and held[at] ~= 0 and add(keys.lanes, name .. lane, held[at]) == 0 then
        redis.call('HDEL', keys.lanes, name .. lane)
      end
    end
  end
  if bytes ~= 0 then
    add(keys.meta, 'bytes', bytes)
  end
end

-- A ticket for a handle that lost its own, so that it still ends with a record: named after its request, if that is left.
local function mend(keys, handle)
  local request = redis.call('HGET', keys.request, handle:sub(17))
  local names = '\0\6\0\0\0\0\0\0'
  if request and #request >= 9 and request:byte(1) == 1 and #request >= 3 + struct.unpack('>I2', request, 2) then
    names = request:sub(2, 3 + struct.unpack('>I2', request, 2))
  end
  return '\1\0' .. handle:sub(1, 16) .. string.rep('\0', 169) .. names
end

-- Ends one generation, whose key is at hand and whose ticket names no owner any more: it is kept as it is.
local function record_end(batch, key, handle, ticket, outcome, status, answer)
  local generation, lane, last = cut(ticket, 11, 18), lane_in(ticket)
  if outcome ~= batch.outcome or status ~= batch.status then
    -- Mostly what it was for the one before.
    batch.outcome, batch.head, batch.status, batch.number = outcome, pack('>BB', 1, outcome), status, pack('>I2', status)
  end
  local record = batch.head .. generation .. batch.stamp .. cut(ticket, 79, 86) .. cut(ticket, 160, 162)
    .. batch.number .. cut(ticket, 188, last) .. answer
  local results, tickets, told = batch.results, batch.tickets, batch.told
  local size, more = #results, #record
  results[size + 1], results[size + 2] = key, record
  tickets[size + 1], tickets[size + 2] = key, ticket
  -- As many as of those, since there are two of each.
  told[size + 1], told[size + 2] = key, generation
  if outcome >= GAVE_UP then
    put(batch.dead, handle)
  else
    local bodies = batch.bodies
    local place = #bodies + 1
    batch.finished[place], bodies[place] = handle, key
    more = more - redis.call('HSTRLEN', batch.request, key)
  end
  count_lane(batch.lanes, lane, -1, more)
  batch.bytes = batch.bytes + more
end

-- Ends one generation.
local function finish(batch, handle, ticket, outcome, status, answer)
  record_end(batch, cut(handle, 17), handle, unowned(ticket), outcome, status, answer)
end

-- Fails the call, if one of the keys holds another type than what `publish` writes there; for those who write before it.
local function may_publish(keys)
  redis.call('ZCARD', keys.finished)
  redis.call('ZCARD', keys.dead)
  redis.call('HLEN', keys.request)
  redis.call('HLEN', keys.result)
  redis.call('HLEN', keys.lanes)
end

local function write_ends(batch, keys)
  local policy = redis.call('HMGET', keys.meta, 'retention', 'dead_retention')
  -- Nothing is written yet, and by now every key was read but these: another type under one fails the call here.
  redis.call('HLEN', keys.result)
  for _, home in ipairs({'finished', 'dead'}) do
    if #batch[home] > 0 then
      redis.call('ZCARD', keys[home])
    end
  end
  write_counts(keys, batch.bytes, batch.lanes)
  flush('HSET', keys.result, batch.results)
  flush('HSET', keys.ticket, batch.tickets)
  for at, home in ipairs({'finished', 'dead'}) do
    local till, members = digits(batch.now + (tonumber(policy[at]) or UNDECLARED_RETENTION)), {}
    local handles = batch[home]
    for place = 1, #handles do
      members[2 * place - 1], members[2 * place] = till, handles[place]
    end
    flush('ZADD', keys[home], members)
  end
  flush('HDEL', keys.request, batch.bodies)
  -- A hint must not fail what it tells of: a user without rights on channels ends requests all the same.
  redis.pcall('SPUBLISH', keys.ended, table.concat(batch.told))
end

local function publish(batch, keys)
  if #batch.told > 0 then
    write_ends(batch, keys)
  end
  for home, handles in pairs(batch.left) do
    flush('ZREM', keys[home], handles)
  end
end
