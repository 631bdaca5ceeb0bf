#!lua flags=allow-oom
--[[
expire: end what waited past its deadline.

KEYS[1]  pending   ZSET  handle, scored by deadline (ms)
KEYS[2]  suspects  ZSET  handle, scored by deadline
KEYS[3]  finished  ZSET  handle, scored by end of retention
KEYS[4]  dead      ZSET  handle, scored by end of retention
KEYS[5]  request   HASH  key -> tenant, id, lane, envelope and body
KEYS[6]  ticket    HASH  key -> packed state
KEYS[7]  result    HASH  key -> terminal record
KEYS[8]  meta      HASH  bytes, retentions
KEYS[9]  lanes     HASH  n|lane, b|lane -> requests and bytes held
KEYS[10] ended     channel: keys and generations that ended
ARGV[1] how many a set at most, 1 to 128

Returns one answer a request that ended
        {'ended', handle, outcome}

Holds   One terminal record; bounded: only the heads of the two sets are looked at.
        Repeatable: what is ended is in neither set any more.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], finished = KEYS[3], dead = KEYS[4], request = KEYS[5],
  ticket = KEYS[6], result = KEYS[7], meta = KEYS[8], lanes = KEYS[9], ended = KEYS[10]}
local limit = tonumber(ARGV[1])
if not limit or limit < 1 or limit > 128 then
  return redis.error_reply('BADARG expire: 1 to 128')
end
allowed('HINCRBY', 'HSET', 'ZADD', 'HDEL', 'ZREM')
local now, answers = clock(), {}
local batch = endings(keys, now)
local _, ended = expire_heads(keys, now, batch, limit)
publish(batch, keys)
for at, item in ipairs(ended) do
  answers[at] = {'ended', item[1], item[2]}
end
return answers
