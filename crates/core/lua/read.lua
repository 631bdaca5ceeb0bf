#!lua flags=allow-oom
--[[
read: where requests are, and how they ended.

KEYS[1] pending   ZSET  handle, scored by deadline (ms)
KEYS[2] suspects  ZSET  handle, scored by deadline
KEYS[3] delayed   ZSET  handle, scored by due time
KEYS[4] leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5] finished  ZSET  handle, scored by end of retention
KEYS[6] dead      ZSET  handle, scored by end of retention
KEYS[7] ticket    HASH  key -> packed state
KEYS[8] result    HASH  key -> terminal record
KEYS[9] meta      HASH  tick
ARGV[1] how many bytes a record may have to come whole; of a longer one its first 64 come
ARGV[2] 1 if the call must end with a write of its own (durability), else 0
ARGV[3] so many bytes of records are enough for one call, from 1 on: what comes behind them is left for another
ARGV rows of 1: key

Returns one answer a row, in the order of the rows
        'none'                                    no generation is kept under this key
        'later'                                   not looked at: ask again; never the first
        {'at', home, score, now, ticket, record}  home and its score (ms), the server's time, both values; record is
                                                  empty while there is none

Holds   One home, read whole in one script.
        Bounded: Redis tells no part of a record, so each is read whole, also where its head is enough; until there are
        enough of them.
        Repeatable: reading consumes nothing; the tick is only counted.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], leased = KEYS[4], finished = KEYS[5],
  dead = KEYS[6], ticket = KEYS[7], result = KEYS[8], meta = KEYS[9]}
local whole, tick, room = tonumber(ARGV[1]), ARGV[2] == '1', tonumber(ARGV[3])
if not whole or not room or room < 1 or #ARGV - 3 > MOST_ROWS then
  return redis.error_reply('BADARG read: two numbers of bytes, up to 256 rows')
end
for at = 4, #ARGV do
  if #ARGV[at] ~= 16 then
    return redis.error_reply('BADARG read: keys of 16 bytes')
  end
end
local now, answers, tickets = digits(clock()), {}, {}
if #ARGV > 3 then
  tickets = redis.call('HMGET', keys.ticket, unpack(ARGV, 4))
end
for at = 4, #ARGV do
  local key = ARGV[at]
  if room <= 0 then
    answers[#answers + 1] = 'later'
  else
    local ticket = tickets[at - 3]
    if not readable(ticket) then
      answers[#answers + 1] = 'none'
    else
      local home, score = home_of(keys, handle_in(ticket, key), ticket)
      local record = ''
      if home == 'finished' or home == 'dead' then
        record = redis.call('HGET', keys.result, key) or ''
        room = room - #record
      end
      answers[#answers + 1] = {'at', home, score, now, ticket, #record <= whole and record or record:sub(1, 64)}
    end
  end
end
if tick then
  redis.call('HINCRBY', keys.meta, 'tick', 1)
end
return answers
