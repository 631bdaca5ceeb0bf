#!lua flags=allow-oom
--[[
sweep: forget ended requests whose retention is over, and rows of sessions that ended long ago.

KEYS[1] finished  ZSET  handle, scored by end of retention (ms)
KEYS[2] dead      ZSET  handle, scored by end of retention
KEYS[3] request   HASH  key -> tenant, id, lane, envelope and body
KEYS[4] ticket    HASH  key -> packed state
KEYS[5] result    HASH  key -> terminal record
KEYS[6] answer    HASH  fence|handle -> an answer that travels beside Lua
KEYS[7] sessions  HASH  session -> last call number, when, its handles
KEYS[8] meta      HASH  bytes
KEYS[9] lanes     HASH  n|lane, b|lane -> requests and bytes held
ARGV[1] how many a set at most, 1 to 128
ARGV[2] age in ms at which a session's row is forgotten

Returns one answer a handle
        handle               every field of that request is gone
        {'dropped', handle}  another generation lives under its key: only the handle was removed

Holds   Nothing newer is removed: the ticket must still name the handle that the set named.
        The byte counter falls by the lengths that are really removed.
        Repeatable: what is swept is in neither set any more.
        Clock: the server's, in ms.
]]
local keys = {finished = KEYS[1], dead = KEYS[2], request = KEYS[3], ticket = KEYS[4], result = KEYS[5], meta = KEYS[8],
  lanes = KEYS[9]}
local sessions, limit, age = KEYS[7], tonumber(ARGV[1]), tonumber(ARGV[2])
if not limit or limit < 1 or limit > 128 or not age or age <= 0 then
  return redis.error_reply('BADARG sweep: 1 to 128, and an age above 0 ms')
end

allowed('HDEL', 'ZREMRANGEBYRANK', 'HINCRBY')
local now, answers, bytes, lanes = clock(), {}, 0, {}
-- Read or written after the first write: another type under one of these must fail the call before it.
redis.call('ZCARD', keys.dead)
for _, key in ipairs({keys.request, keys.result, keys.meta, keys.lanes, sessions}) do
  redis.call('HLEN', key)
end
for _, home in ipairs({'finished', 'dead'}) do
  local due = redis.call('ZRANGEBYSCORE', keys[home], '-inf', digits(now), 'LIMIT', 0, limit)
  local tickets, names = tickets_in(keys.ticket, due)
  local fields, requests, left = {}, nil, home == 'dead'
  if home == 'finished' and #due > 0 then
    -- It keeps none: one look at all of them shows it.
    requests = redis.call('HMGET', keys.request, unpack(names))
  end
  for at, handle in ipairs(due) do
    local key = names[at]
    local ticket = tickets[at]
    local whole = readable(ticket)
    if not whole or is_of(ticket, handle) then
      local request = requests and #(requests[at] or '') or redis.call('HSTRLEN', keys.request, key)
      -- An empty one too.
      left = left or requests[at]
      local size = request + redis.call('HSTRLEN', keys.result, key)
      bytes = bytes - size
      if whole then
        count_lane(lanes, lane_in(ticket), 0, -size)
      end
      fields[#fields + 1] = key
      answers[#answers + 1] = handle
    else
      answers[#answers + 1] = {'dropped', handle}
    end
  end
  if left then
    flush('HDEL', keys.request, fields)
  end
  flush('HDEL', keys.result, fields)
  flush('HDEL', keys.ticket, fields)
  if #due > 0 then
    -- They stood first, one behind the other, so that Redis need not look for each.
    redis.call('ZREMRANGEBYRANK', keys[home], 0, #due - 1)
  end
end
write_counts(keys, bytes, lanes)

-- A few rows a pass, drawn at random: enough to keep the hash as large as the fleet.
local rows, old = redis.call('HRANDFIELD', sessions, 8, 'WITHVALUES'), {}
for at = 1, #rows, 2 do
  if #rows[at + 1] < 24 or struct.unpack('>I8', rows[at + 1], 17) + age < now then
    old[#old + 1] = rows[at]
  end
end
flush('HDEL', sessions, old)
return answers
