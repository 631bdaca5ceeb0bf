#!lua flags=allow-oom
--[[
promote: let what is due from delayed be claimed again, or what an operator names before it is due.

KEYS[1] pending   ZSET  handle, scored by deadline (ms)
KEYS[2] suspects  ZSET  handle, scored by deadline
KEYS[3] delayed   ZSET  handle, scored by due time
KEYS[4] ticket    HASH  key -> packed state
KEYS[5] bell      LIST  tokens for sleeping workers
ARGV[1] how many at most, 1 to 256; not used when rows name handles
ARGV rows of 2: handle, the due time (ms) that its caller saw

Returns one answer a handle; with rows one a row, in their order
        {'moved', handle}    claimable now
        {'changed', handle}  not delayed, or due at another time than its caller saw; nothing was written

Holds   One home; order: it takes the place its deadline gives it.
        Repeatable: by the due time; a late copy after a new back-off changes nothing.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], ticket = KEYS[4], bell = KEYS[5]}
local limit = tonumber(ARGV[1])
if not limit or limit < 1 or limit > 256 or (#ARGV - 1) % 2 ~= 0 or #ARGV - 1 > 2 * MOST_ROWS then
  return redis.error_reply('BADARG promote: 1 to 256, then up to 256 rows of 2')
end
for at = 2, #ARGV, 2 do
  if #ARGV[at] ~= 32 or not tonumber(ARGV[at + 1]) then
    return redis.error_reply('BADARG promote: a handle of 32 bytes and a due time')
  end
end

allowed('ZADD', 'ZREM', 'RPUSH')
local now, answers, rings = clock(), {}, false
if #ARGV == 1 then
  local moved = promote_due(keys, now, due_of(keys, now, limit))
  for at, handle in ipairs(moved) do
    answers[at] = {'moved', handle}
  end
  rings = #moved > 0
else
  -- Written row by row: another type under one of these must fail the call before its first write.
  redis.call('ZCARD', keys.pending)
  redis.call('ZCARD', keys.suspects)
end
for at = 2, #ARGV, 2 do
  local handle, seen = ARGV[at], tonumber(ARGV[at + 1])
  local due = redis.call('ZSCORE', keys.delayed, handle)
  local ticket = due and tonumber(due) == seen and redis.call('HGET', keys.ticket, handle:sub(17))
  if readable(ticket) and handle_in(ticket, handle:sub(17)) == handle then
    redis.call('ZADD', suspected(ticket) and keys.suspects or keys.pending, digits(deadline_in(ticket)), handle)
    redis.call('ZREM', keys.delayed, handle)
    answers[#answers + 1] = {'moved', handle}
    rings = true
  else
    answers[#answers + 1] = {'changed', handle}
  end
end
if rings then
  ring(keys.bell)
end
return answers
