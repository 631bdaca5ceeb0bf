#!lua
--[[
redrive: start dead requests again, each under a new generation.

KEYS[1]  pending   ZSET  handle, scored by deadline (ms)
KEYS[2]  suspects  ZSET  handle, scored by deadline
KEYS[3]  delayed   ZSET  handle, scored by due time
KEYS[4]  leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5]  dead      ZSET  handle, scored by end of retention
KEYS[6]  request   HASH  key -> tenant, id, lane, envelope and body
KEYS[7]  ticket    HASH  key -> packed state
KEYS[8]  result    HASH  key -> terminal record
KEYS[9]  meta      HASH  seq, bytes; the policy's capacity
KEYS[10] lanes     HASH  n|lane, b|lane -> requests and bytes held
KEYS[11] bell      LIST  tokens for sleeping workers
ARGV rows of 3: dead handle, new generation, deadline (ms; 0: as long from now as it was from its submission)

Returns one answer a row, in the order of the rows
        {'redriven', ticket}  pending again, as told in the ticket
        {'already', ticket}   this new generation is there already; nothing was written
        'gone'                not dead, or another generation is there; nothing was written
        'bodyless'            its request is lost; nothing was written
        'full'                the queue is full; nothing was written
        'late'                the given deadline has passed, or none is given and the old one is lost; nothing was written

Holds   One generation of an id at a time: the old record gives way, and the ticket keeps how the last run ended.
        Repeatable: by the new generation, made once by the caller.
        A full Redis: no allow-oom flag, so that Redis refuses the whole call before it runs.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], leased = KEYS[4], dead = KEYS[5],
  request = KEYS[6], ticket = KEYS[7], result = KEYS[8], meta = KEYS[9], lanes = KEYS[10], bell = KEYS[11]}
local handles = {}
if #ARGV > 3 * MOST_ROWS then
  return redis.error_reply('BADARG redrive: up to 256 rows')
end
for at = 1, #ARGV, 3 do
  if #ARGV % 3 ~= 0 or #ARGV[at] ~= 32 or #ARGV[at + 1] ~= 8 or not tonumber(ARGV[at + 2]) then
    return redis.error_reply('BADARG redrive: rows of handle, generation of 8 bytes, deadline')
  end
  handles[#handles + 1] = ARGV[at]
end

allowed('HINCRBY', 'HSET', 'ZADD', 'ZREM', 'HDEL', 'RPUSH')
local now = clock()
local found, answers, moved, lanes, bytes = tickets_of(keys.ticket, handles), {}, false, {}, 0
local capacity = tonumber((redis.call('HGET', keys.meta, 'capacity')))
-- Written last, and read by nothing here: another type there must fail the call before its first write.
redis.call('HLEN', keys.lanes)
local live = redis.call('ZCARD', keys.pending) + redis.call('ZCARD', keys.suspects)
  + redis.call('ZCARD', keys.delayed) + redis.call('ZCARD', keys.leased)
for at = 1, #ARGV, 3 do
  local old, generation, deadline = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local key = old:sub(17)
  local ticket = found[key]
  local named = readable(ticket)
  if named and ticket:sub(11, 18) == generation then
    answers[#answers + 1] = {'already', ticket}
  elseif not named or handle_in(ticket, key) ~= old or not redis.call('ZSCORE', keys.dead, old) then
    answers[#answers + 1] = 'gone'
  elseif redis.call('HEXISTS', keys.request, key) == 0 then
    answers[#answers + 1] = 'bodyless'
  elseif capacity and live >= capacity then
    answers[#answers + 1] = 'full'
  elseif deadline == 0 and deadline_in(ticket) == 0 or deadline ~= 0 and deadline <= now then
    answers[#answers + 1] = 'late'
  else
    local till, _, submitted = struct.unpack('>I8I8I8', ticket, 51)
    if deadline == 0 then
      deadline = now + (till - submitted)
    end
    local record = redis.call('HGET', keys.result, key) or '\1' .. string.rep('\0', 17)
    local sequence = redis.call('HINCRBY', keys.meta, 'seq', 1)
    local fresh = '\1\0' .. struct.pack('>I8', sequence) .. generation .. ticket:sub(19, 50)
      .. struct.pack('>I8I8I8', deadline, 0, now) .. ticket:sub(75, 78) .. string.rep('\0', 92)
      .. ticket:sub(11, 18) .. record:sub(2, 2) .. record:sub(11, 18) .. ticket:sub(188)
    redis.call('HSET', keys.ticket, key, fresh)
    redis.call('ZADD', keys.pending, digits(deadline), handle_in(fresh, key))
    redis.call('ZREM', keys.dead, old)
    redis.call('HDEL', keys.result, key)
    local size = #record > 18 and #record or 0
    count_lane(lanes, lane_in(fresh), 1, -size)
    found[key], live, bytes, moved = fresh, live + 1, bytes - size, true
    answers[#answers + 1] = {'redriven', fresh}
  end
end
write_counts(keys, bytes, lanes)
if moved then
  ring(keys.bell)
end
return answers
