#!lua flags=allow-oom
--[[
audit: everything that is kept under keys, seen at one moment, for whoever looks whether it fits together.

KEYS[1] pending   ZSET  handle, scored by deadline (ms)
KEYS[2] suspects  ZSET  handle, scored by deadline
KEYS[3] delayed   ZSET  handle, scored by due time
KEYS[4] leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5] finished  ZSET  handle, scored by end of retention
KEYS[6] dead      ZSET  handle, scored by end of retention
KEYS[7] request   HASH  key -> tenant, id, lane, envelope and body
KEYS[8] ticket    HASH  key -> packed state
KEYS[9] result    HASH  key -> terminal record
ARGV rows of 1: key

Returns one answer a row, in the order of the rows
        'none'                                                  nothing is kept under this key
        {'kept', state, ticket, request, result, home, score...}  state: whole, broken or lost; the ticket if it is whole;
                                                                lengths of request and record, 0 without; each home
                                                                that its handle is in, with its score

Holds   Whole: no move of a request is seen half done.
        Repeatable: it only reads. No body passes through it.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], leased = KEYS[4], finished = KEYS[5],
  dead = KEYS[6], request = KEYS[7], ticket = KEYS[8], result = KEYS[9]}
if #ARGV > MOST_ROWS then
  return redis.error_reply('BADARG audit: up to 256 rows')
end
for at = 1, #ARGV do
  if #ARGV[at] ~= 16 then
    return redis.error_reply('BADARG audit: keys of 16 bytes')
  end
end
local answers = {}
for at = 1, #ARGV do
  local key = ARGV[at]
  local ticket = redis.call('HGET', keys.ticket, key)
  local request, result = redis.call('HSTRLEN', keys.request, key), redis.call('HSTRLEN', keys.result, key)
  if not ticket and request == 0 and result == 0 then
    answers[at] = 'none'
  elseif not readable(ticket) then
    answers[at] = {'kept', ticket and 'broken' or 'lost', '', request, result}
  else
    local answer, handle, fence = {'kept', 'whole', ticket, request, result}, handle_in(ticket, key), ticket:sub(87, 118)
    for _, home in ipairs({'pending', 'suspects', 'delayed', 'finished', 'dead'}) do
      local score = redis.call('ZSCORE', keys[home], handle)
      if score then
        put(answer, home, score)
      end
    end
    local expiry = fence ~= NO_FENCE and redis.call('ZSCORE', keys.leased, fence .. '|' .. handle)
    if expiry then
      put(answer, 'leased', expiry)
    end
    answers[at] = answer
  end
end
return answers
