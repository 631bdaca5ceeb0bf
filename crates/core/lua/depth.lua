#!lua flags=allow-oom
--[[
depth: how much is where, for eyes and gauges.

KEYS[1] pending   ZSET  handle, scored by deadline (ms)
KEYS[2] suspects  ZSET  handle, scored by deadline
KEYS[3] delayed   ZSET  handle, scored by due time
KEYS[4] leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5] finished  ZSET  handle, scored by end of retention
KEYS[6] dead      ZSET  handle, scored by end of retention
KEYS[7] ticket    HASH  key -> packed state
KEYS[8] meta      HASH  bytes, paused, limit_total

Returns one answer
        {'depth', pending, suspects, delayed, leased, finished, dead, bytes, paused, limit, now, deadline, submitted, claimed}
        paused: 1 or 0; limit: an operator's, or -1; the server's time; deadline and submission of the next to be
        claimed, 0 if there is none; when the oldest of the 64 leases that end next was claimed, 0 if there is none

Holds   Bounded: counts are kept by Redis, 64 leases are looked at.
        Repeatable: it only reads.
]]
local counts = {'depth'}
for at = 1, 6 do
  counts[at + 1] = redis.call('ZCARD', KEYS[at])
end
local meta = redis.call('HMGET', KEYS[8], 'bytes', 'paused', 'limit_total')
counts[8], counts[9], counts[10] = tonumber(meta[1]) or 0, meta[2] == '1' and 1 or 0, tonumber(meta[3]) or -1
counts[11], counts[12], counts[13], counts[14] = clock(), 0, 0, 0
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if head[1] then
  local ticket = redis.call('HGET', KEYS[7], head[1]:sub(17))
  counts[12] = tonumber(head[2])
  counts[13] = readable(ticket) and struct.unpack('>I8', ticket, 67) or 0
end
local handles = redis.call('ZRANGE', KEYS[4], 0, 63)
for at = 1, #handles do
  handles[at] = handles[at]:sub(34)
end
for _, ticket in pairs(tickets_of(KEYS[7], handles)) do
  local claimed = readable(ticket) and struct.unpack('>I8', ticket, 119) or 0
  if claimed > 0 and (counts[14] == 0 or claimed < counts[14]) then
    counts[14] = claimed
  end
end
return {counts}
