#!lua flags=allow-oom
--[[
reclaim: take back leases whose time ran out, or those that an operator names.

KEYS[1]  pending   ZSET  handle, scored by deadline (ms)
KEYS[2]  suspects  ZSET  handle, scored by deadline
KEYS[3]  leased    ZSET  fence|handle, scored by the end of the lease
KEYS[4]  finished  ZSET  handle, scored by end of retention
KEYS[5]  dead      ZSET  handle, scored by end of retention
KEYS[6]  request   HASH  key -> tenant, id, lane, envelope and body
KEYS[7]  ticket    HASH  key -> packed state
KEYS[8]  result    HASH  key -> terminal record
KEYS[9]  meta      HASH  beat, forgiven_to, longest_lease, max_lapses, bytes, retentions
KEYS[10] lanes     HASH  n|lane, b|lane -> requests and bytes held
KEYS[11] bell      LIST  tokens for sleeping workers
KEYS[12] ended     channel: keys and generations that ended
ARGV[1] how many answers at most, 1 to 256; not used when rows name leases
ARGV rows of 2: fence, handle of a lease that is to end now

Returns one answer a lease; with rows one a row, in their order
        {'returned', handle, charge}        claimable again; charge: 'lapse', 'forgiven' or 'none'
        {'ended', handle, outcome, charge}  ended instead
        {'dropped', handle}                 its ticket names another generation: only the lease was removed
        {'lost', handle}                    a named lease that is not held; nothing was written
        {'lowered', handle}                 its lease ended beyond any that a clock which went back can give: it is
                                            still held, and ends sooner

Holds   Recovery: flagged -> cancelled; the max_lapses-th lapse -> killed-workers; late -> deadline-exceeded; else back.
        An outage is nobody's fault: a lease that ended by forgiven_to is charged no lapse; 4 x max_lapses of these end it.
        A lease that an operator ends charges nothing.
        Repeatable: what is taken back is no member of leased any more. Two at once share the work.
        Clock: the server's; if it went back, expiries beyond now + the longest lease are lowered.
        Bounded: what is lowered takes what the lapsed ones leave of the limit; as many answers as that tell of a rest.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], leased = KEYS[3], finished = KEYS[4], dead = KEYS[5],
  request = KEYS[6], ticket = KEYS[7], result = KEYS[8], meta = KEYS[9], lanes = KEYS[10], bell = KEYS[11],
  ended = KEYS[12]}
-- Where nobody has written the queue's policy yet: what the settings' default says.
local UNDECLARED_LAPSES = 5
local limit, named = tonumber(ARGV[1]), #ARGV > 1
if not limit or limit < 1 or limit > 256 or (#ARGV - 1) % 2 ~= 0 or #ARGV - 1 > 2 * MOST_ROWS then
  return redis.error_reply('BADARG reclaim: 1 to 256, then up to 256 rows of 2')
end
for at = 2, #ARGV do
  if #ARGV[at] ~= 32 then
    return redis.error_reply('BADARG reclaim: a fence and a handle of 32 bytes each')
  end
end

allowed('HINCRBY', 'HSET', 'ZADD', 'HDEL', 'ZREM', 'RPUSH')
local now = clock()
local answers, members, expiry, ahead = {}, {}, {}, {}
local beat, pardon, longest = {}, 0, 0
if named then
  for at = 2, #ARGV, 2 do
    members[#members + 1] = ARGV[at] .. '|' .. ARGV[at + 1]
  end
else
  beat, pardon, longest = watch_beat(keys.meta, now)
  local due = redis.call('ZRANGEBYSCORE', keys.leased, '-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, limit)
  for at = 1, #due, 2 do
    members[#members + 1] = due[at]
    expiry[due[at]] = tonumber(due[at + 1])
  end
  if longest > 0 then
    ahead = redis.call('ZRANGEBYSCORE', keys.leased, '(' .. digits(now + longest), '+inf', 'LIMIT', 0, limit - #members)
  end
end

local handles = {}
for at, member in ipairs(members) do
  handles[at] = member:sub(34)
end
local found, batch = tickets_of(keys.ticket, handles), endings(keys, now)
local most = #members > 0 and tonumber((redis.call('HGET', keys.meta, 'max_lapses'))) or UNDECLARED_LAPSES
local owners, tickets, pending, suspects, seen = {}, {}, {}, {}, {}
for at, member in ipairs(members) do
  local handle = handles[at]
  local key = handle:sub(17)
  local ticket = found[key]
  if #member ~= 65 then
    -- No lease of ours, and nothing to give back: it only leaves.
    put(owners, member)
  elseif named and (seen[member] or not redis.call('ZSCORE', keys.leased, member)) then
    answers[#answers + 1] = {'lost', handle}
  elseif readable(ticket) and handle_in(ticket, key) ~= handle then
    put(owners, member)
    answers[#answers + 1] = {'dropped', handle}
  elseif not readable(ticket) or redis.call('HEXISTS', keys.request, key) == 0 then
    put(owners, member)
    finish(batch, handle, readable(ticket) and ticket or mend(keys, handle), UNUSABLE, 0, NO_ANSWER)
    answers[#answers + 1] = {'ended', handle, UNUSABLE, 'none'}
  else
    put(owners, member)
    local lapses, forgiven = struct.unpack('>I2I2', ticket, 83)
    local charge = 'none'
    if not named then
      charge = expiry[member] <= pardon and 'forgiven' or 'lapse'
    end
    if charge == 'forgiven' then
      forgiven = forgiven + 1
    elseif charge == 'lapse' then
      lapses = lapses + 1
    end
    -- 11: the lease was lost.
    ticket = ticket:sub(1, 82) .. struct.pack('>I2I2', lapses, forgiven) .. NO_FENCE .. ticket:sub(119, 159)
      .. struct.pack('>BI2I8', 11, 0, now) .. ticket:sub(171)
    local outcome
    if bit.band(ticket:byte(2), 1) == 1 then
      outcome = CANCELLED
    elseif charge == 'lapse' and lapses >= most or charge == 'forgiven' and forgiven >= 4 * most then
      outcome = KILLED_WORKERS
    elseif deadline_in(ticket) <= now then
      outcome = DEADLINE_EXCEEDED
    end
    if outcome then
      finish(batch, handle, ticket, outcome, 0, NO_ANSWER)
      answers[#answers + 1] = {'ended', handle, outcome, charge}
    else
      put(tickets, key, ticket)
      put(suspected(ticket) and suspects or pending, digits(deadline_in(ticket)), handle)
      answers[#answers + 1] = {'returned', handle, charge}
    end
  end
  seen[member] = true
end
local lowered = {}
for _, member in ipairs(ahead) do
  put(lowered, digits(now + longest), member)
  -- What is no lease of ours has no handle to tell: it only leaves the sooner.
  if #member == 65 then
    answers[#answers + 1] = {'lowered', member:sub(34)}
  end
end
-- What is written and not read before: another type there must fail the call now.
if #pending > 0 then
  redis.call('ZCARD', keys.pending)
end
if #suspects > 0 then
  redis.call('ZCARD', keys.suspects)
end
publish(batch, keys)
flush('HSET', keys.meta, beat)
flush('ZADD', keys.leased, lowered)
flush('HSET', keys.ticket, tickets)
flush('ZADD', keys.pending, pending)
flush('ZADD', keys.suspects, suspects)
flush('ZREM', keys.leased, owners)
if #pending > 0 or #owners > 0 and redis.call('EXISTS', keys.suspects) == 1 then
  ring(keys.bell)
elseif #owners > 0 and redis.call('EXISTS', keys.pending) == 1 then
  -- A lease that ended for good leaves its place under a limit to another.
  local limits = redis.call('HMGET', keys.meta, 'limit', 'in_flight')
  if limits[1] or limits[2] then
    ring(keys.bell)
  end
end
return answers
