#!lua flags=allow-oom
--[[
cancel: end what waits; ask the worker of what runs to stop.

KEYS[1]  pending   ZSET  handle, scored by deadline (ms)
KEYS[2]  suspects  ZSET  handle, scored by deadline
KEYS[3]  delayed   ZSET  handle, scored by due time
KEYS[4]  leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5]  finished  ZSET  handle, scored by end of retention
KEYS[6]  dead      ZSET  handle, scored by end of retention
KEYS[7]  request   HASH  key -> tenant, id, lane, envelope and body
KEYS[8]  ticket    HASH  key -> packed state
KEYS[9]  result    HASH  key -> terminal record
KEYS[10] meta      HASH  bytes, retentions
KEYS[11] lanes     HASH  n|lane, b|lane -> requests and bytes held
KEYS[12] ended     channel: keys and generations that ended
KEYS[13] cancel    channel: fences and handles to stop
ARGV rows of 1: handle

Returns one answer a row, in the order of the rows
        'cancelled'         it waited, and is ended now
        'asked'             it runs; its worker is told to stop
        {'ended', outcome}  it had ended before; nothing was written
        'gone'              the ticket names another generation, or there is none; nothing was written

Holds   One home; one terminal record.
        An answer that arrives first is kept: a flag is all that is set on what runs.
        Repeatable: by the handle; a second copy finds the flag or the end.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], leased = KEYS[4], finished = KEYS[5],
  dead = KEYS[6], request = KEYS[7], ticket = KEYS[8], result = KEYS[9], meta = KEYS[10], lanes = KEYS[11],
  ended = KEYS[12], cancel = KEYS[13]}
if #ARGV > MOST_ROWS then
  return redis.error_reply('BADARG cancel: up to 256 rows')
end
for at = 1, #ARGV do
  if #ARGV[at] ~= 32 then
    return redis.error_reply('BADARG cancel: handles of 32 bytes')
  end
end

allowed('HINCRBY', 'HSET', 'ZADD', 'HDEL', 'ZREM')
local now = clock()
local found, batch, answers, tickets, told = tickets_of(keys.ticket, ARGV), endings(keys, now), {}, {}, {}
local removed, done = {pending = {}, suspects = {}, delayed = {}}, {}
for _, handle in ipairs(ARGV) do
  local key = handle:sub(17)
  local ticket = found[key]
  if not readable(ticket) or handle_in(ticket, key) ~= handle then
    answers[#answers + 1] = 'gone'
  elseif done[handle] then
    answers[#answers + 1] = done[handle]
  else
    local home = home_of(keys, handle, ticket)
    if home == 'leased' then
      if bit.band(ticket:byte(2), 1) == 0 then
        put(tickets, key, ticket:sub(1, 1) .. string.char(ticket:byte(2) + 1) .. ticket:sub(3))
      end
      told[#told + 1] = ticket:sub(87, 118) .. handle
      answers[#answers + 1] = 'asked'
    elseif removed[home] then
      put(removed[home], handle)
      finish(batch, handle, ticket, CANCELLED, 0, NO_ANSWER)
      done[handle] = {'ended', CANCELLED}
      answers[#answers + 1] = 'cancelled'
    else
      local record = redis.call('HGET', keys.result, key)
      answers[#answers + 1] = record and #record >= 2 and {'ended', record:byte(2)} or 'gone'
    end
  end
end
publish(batch, keys)
flush('HSET', keys.ticket, tickets)
for home, handles in pairs(removed) do
  flush('ZREM', keys[home], handles)
end
if #told > 0 then
  -- A hint must not fail what it tells of: who may not use channels is told by renew.
  redis.pcall('SPUBLISH', keys.cancel, table.concat(told))
end
return answers
