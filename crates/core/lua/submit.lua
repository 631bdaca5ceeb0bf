#!lua
--[[
submit: take in new requests, each under its id.

KEYS[1]  pending   ZSET  handle, scored by deadline (ms)
KEYS[2]  suspects  ZSET  handle, scored by deadline
KEYS[3]  delayed   ZSET  handle, scored by due time
KEYS[4]  leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5]  finished  ZSET  handle, scored by end of retention
KEYS[6]  dead      ZSET  handle, scored by end of retention
KEYS[7]  request   HASH  key -> tenant, id, lane, envelope and body
KEYS[8]  ticket    HASH  key -> packed state
KEYS[9]  meta      HASH  seq, bytes; the policy's capacity and capacity_bytes
KEYS[10] lanes     HASH  n|lane, b|lane -> requests and bytes held; r|lane -> until when its rate is used up (us)
KEYS[11] bell      LIST  tokens for sleeping workers
ARGV[1] how long a record that answers a repeat is kept at least from now, in ms
ARGV rows of 4: key, ticket (sequence and submitted_at left 0), request, and what its lane may have here: nothing where
        it has no limit, or three numbers u64be, each 0 for none: requests, bytes, accepted submits a second

Returns one answer a row, in the order of the rows
        sequence, now               16 bytes, u64be each: new, and accepted under this number at this time
        {'known', home, ticket}     this very submission was accepted before; here is where it is. A ticket that is in no home
                                    is no request: the id is free
        {'reused', home, ticket}    other bytes live under this id; nothing of these was taken
        {'full', limit}             the queue holds 'requests' or 'bytes' up to its limit; nothing was written
        {'over', limit}             the lane has 'requests' or 'bytes' up to its limit, or used its 'rate' up; nothing was written
        'late'                      the deadline has passed; nothing was written
        'undeclared'                nobody has written this queue's policy yet; nothing was written
        'spoiled'                   somebody has made a counter that it goes by hold no number; nothing was written

Holds   One home: a new generation is in pending, or in delayed until its not_before.
        Id rule: it comes before every refusal, and whoever meets an ended one moves the end of its
        retention to at least ARGV[1] from now.
        Limits of a lane: counted here and at every end; of a rate as much as a second brings can be used at once, and a
        clock that went back makes nobody wait.
        Repeatable: by id and digest; a second copy is answered 'known'.
        A full Redis: no allow-oom flag, so that Redis refuses the whole call before it runs.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], leased = KEYS[4], finished = KEYS[5],
  dead = KEYS[6], request = KEYS[7], ticket = KEYS[8], meta = KEYS[9], lanes = KEYS[10], bell = KEYS[11]}
local guard = tonumber(ARGV[1])
if not guard or guard < 0 or (#ARGV - 1) % 4 ~= 0 or #ARGV - 1 > 4 * MOST_ROWS then
  return redis.error_reply('BADARG submit: a time to keep, then up to 256 rows of 4')
end
local names, deadlines, starts = {}, {}, {}
for at = 2, #ARGV, 4 do
  local deadline, start = struct.unpack('>I8I8', readable(ARGV[at + 1]) and ARGV[at + 1] or string.rep('\0', 66), 51)
  if #ARGV[at] ~= 16 or start >= deadline then
    return redis.error_reply('BADARG submit: a key of 16 bytes, a whole ticket, not_before below its deadline')
  elseif #ARGV[at + 3] ~= 0 and #ARGV[at + 3] ~= 24 then
    return redis.error_reply('BADARG submit: limits of 24 bytes, or none')
  end
  local row = #names + 1
  names[row], deadlines[row], starts[row] = ARGV[at], deadline, start
end

allowed('HSET', 'ZADD', 'RPUSH')
local now = clock()
local tickets = {}
if #names > 0 then
  tickets = redis.call('HMGET', keys.ticket, unpack(names))
end
local policy = redis.call('HMGET', keys.meta, 'capacity', 'capacity_bytes', 'bytes', 'seq')
local capacity, room = tonumber(policy[1]), tonumber(policy[2])
-- What nobody has counted yet is 0; a counter that somebody has spoiled is nil, and not begun anew.
local bytes, sequence = tonumber(policy[3] or 0), tonumber(policy[4] or 0)
local live = redis.call('ZCARD', keys.pending) + redis.call('ZCARD', keys.suspects)
  + redis.call('ZCARD', keys.delayed) + redis.call('ZCARD', keys.leased)

local answers, new, added, lanes = {}, {}, 0, {}

-- Reads what a lane holds; whether all of it are numbers.
local held = {}
local function is_counted(lane)
  if lane == '' then
    return true
  elseif not held[lane] then
    local here = redis.call('HMGET', keys.lanes, 'n|' .. lane, 'b|' .. lane, 'r|' .. lane)
    held[lane] = {tonumber(here[1] or 0), tonumber(here[2] or 0), tonumber(here[3] or 0)}
  end
  return held[lane][1] and held[lane][2] and held[lane][3]
end

-- The limit that one more request meets in its lane, if any; else what it takes of the rate is taken.
local rates, now_us = {}, now * 1000
local function limit_met(lane, limits, size)
  if limits == '' or lane == '' then
    return nil
  end
  local most, room, rate = struct.unpack('>I8I8I8', limits)
  local here, more = held[lane], lanes[lane] or {0, 0}
  if most > 0 and here[1] + more[1] >= most then
    return 'requests'
  elseif room > 0 and here[2] + more[2] + size > room then
    return 'bytes'
  elseif rate > 0 then
    -- Each takes its part of a second, one behind the other: who would end beyond a second from now comes too soon.
    -- What ends there already was written before the clock went back, and counts for nothing.
    local used = rates[lane] or here[3]
    if used > now_us + 1000000 then
      used = now_us
    end
    local till = math.max(used, now_us) + math.floor(1000000 / rate)
    if till > now_us + 1000000 then
      return 'rate'
    end
    rates[lane] = till
  end
end

local new_tickets, requests, pending, delayed, kept_on = {}, {}, {}, {}, {finished = {}, dead = {}}
local rows, stamp, count = ARGV, pack('>I8', now), 0
for at = 2, #rows, 4 do
  local key, draft, request, row = rows[at], rows[at + 1], rows[at + 2], (at + 2) / 4
  -- What this very call has taken in under the key, or what was there.
  local kept, deadline, start = new[key] or tickets[row], deadlines[row], starts[row]
  local whole, handle, home, score = kept and readable(kept), nil, 'pending', '0'
  if whole and new[key] then
    home = struct.unpack('>I8', kept, 59) > now and 'delayed' or 'pending'
  elseif whole then
    handle = handle_in(kept, key)
    home, score = home_of(keys, handle, kept)
    if home == 'nowhere' then
      -- Left by a call that was stopped in its midst, for want of a right, say: whoever repeats it now must be kept.
      kept, whole = nil, false
    end
  end
  if whole then
    if (home == 'finished' or home == 'dead') and tonumber(score) < now + guard then
      -- Also for other bytes: a late copy of this call must meet the record, or what is refused now would run after all.
      put(kept_on[home], digits(now + guard), handle)
    end
    answers[row] = {cut(kept, 19, 50) == cut(draft, 19, 50) and 'known' or 'reused', home, kept}
  elseif kept then
    answers[row] = {'reused', 'nowhere', draft}
  elseif not capacity or not room then
    answers[row] = 'undeclared'
  elseif deadline <= now then
    answers[row] = 'late'
  else
    local lane = lane_in(draft)
    if not bytes or not sequence or not is_counted(lane) then
      answers[row] = 'spoiled'
    elseif live >= capacity then
      answers[row] = {'full', 'requests'}
    elseif bytes + added + #request > room then
      answers[row] = {'full', 'bytes'}
    else
      local met = limit_met(lane, rows[at + 3], #request)
      if met then
        answers[row] = {'over', met}
      else
        live, added = live + 1, added + #request
        count_lane(lanes, lane, 1, #request)
        local number = pack('>I8', sequence + count + 1)
        local place = number .. cut(draft, 11, 18)
        local ticket = cut(draft, 1, 2) .. place .. cut(draft, 19, 66) .. stamp .. cut(draft, 75)
        local field, line = 2 * count + 1, start > now and delayed or pending
        count, new[key] = count + 1, ticket
        new_tickets[field], new_tickets[field + 1] = key, ticket
        requests[field], requests[field + 1] = key, request
        field = #line + 1
        line[field], line[field + 1] = start > now and start or deadline, place .. key
        answers[row] = number .. stamp
      end
    end
  end
end
-- All that is written was read by now, so that another type under one of these fails the call before its first write; but
-- `request`, which is written first.
local counts = {}
for lane, more in pairs(lanes) do
  if lane ~= '' then
    put(counts, 'n|' .. lane, held[lane][1] + more[1])
    put(counts, 'b|' .. lane, held[lane][2] + more[2])
  end
end
for lane, till in pairs(rates) do
  put(counts, 'r|' .. lane, till)
end

flush('HSET', keys.request, requests)
for home, till in pairs(kept_on) do
  flush('ZADD', keys[home], till)
end
if count == 0 then
  return answers
end
flush('HSET', keys.ticket, new_tickets)
flush('ZADD', keys.pending, pending)
flush('ZADD', keys.delayed, delayed)
flush('HSET', keys.lanes, counts)
redis.call('HSET', keys.meta, 'seq', sequence + count, 'bytes', bytes + added)
ring(keys.bell)
return answers
