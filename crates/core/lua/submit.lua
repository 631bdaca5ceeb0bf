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
ARGV[2] what the lane of each row may have here, in the order of the rows: three numbers u64be, each 0 for none: requests,
        bytes, accepted submits a second; or nothing, where none of them has a limit
ARGV rows of 3: key, ticket (sequence and submitted_at left 0), request

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
if not guard or guard < 0 or (#ARGV - 2) % 3 ~= 0 or #ARGV - 2 > 3 * MOST_ROWS then
  return redis.error_reply('BADARG submit: a time to keep, limits, then up to 256 rows of 3')
end
local rows, limits, names, deadlines, starts = ARGV, ARGV[2], {}, {}, {}
if limits ~= '' and #limits ~= 8 * (#rows - 2) then
  return redis.error_reply('BADARG submit: limits of 24 bytes a row, or none')
end
for at = 3, #rows, 3 do
  local key, draft, deadline, start = rows[at], rows[at + 1], 0, 0
  if readable(draft) == 0 then
    deadline, start = struct.unpack('>I8I8', draft, 51)
  end
  if #key ~= 16 or start >= deadline then
    return redis.error_reply('BADARG submit: a key of 16 bytes, a whole ticket without flags, not_before below its deadline')
  end
  local row = #names + 1
  names[row], deadlines[row], starts[row] = key, deadline, start
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

-- Reads what a lane holds, and until when its rate is used up; false unless all of it are numbers. What has no lane is counted
-- in none.
local held = {[''] = {0, 0, 0}}
local function read_lane(lane)
  local here = redis.call('HMGET', keys.lanes, 'n|' .. lane, 'b|' .. lane, 'r|' .. lane)
  local requests, bytes, till = tonumber(here[1] or 0), tonumber(here[2] or 0), tonumber(here[3] or 0)
  held[lane] = requests and bytes and till and {requests, bytes, till}
  return held[lane]
end

-- The limit that one more request meets in its lane, if any; else what it takes of the rate is taken.
local rates, now_us = {}, now * 1000
local function limit_met(lane, here, row, size)
  local most, room, rate = struct.unpack('>I8I8I8', limits, 24 * row - 23)
  if most > 0 and here[1] >= most then
    return 'requests'
  elseif room > 0 and here[2] + size > room then
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
local stamp, count = pack('>I8', now), 0
for row = 1, #names do
  local key, draft, request = names[row], rows[3 * row + 1], rows[3 * row + 2]
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
    local here = held[lane] or read_lane(lane)
    if not bytes or not sequence or not here then
      answers[row] = 'spoiled'
    elseif live >= capacity then
      answers[row] = {'full', 'requests'}
    elseif bytes + added + #request > room then
      answers[row] = {'full', 'bytes'}
    else
      local met = limits ~= '' and lane ~= '' and limit_met(lane, here, row, #request)
      if met then
        answers[row] = {'over', met}
      else
        live, added = live + 1, added + #request
        here[1], here[2], lanes[lane] = here[1] + 1, here[2] + #request, here
        local number = pack('>I8', sequence + count + 1)
        local ticket = '\1\0' .. number .. cut(draft, 11, 66) .. stamp .. cut(draft, 75)
        local field, line = 2 * count + 1, start > now and delayed or pending
        count, new[key] = count + 1, ticket
        new_tickets[field], new_tickets[field + 1] = key, ticket
        requests[field], requests[field + 1] = key, request
        field = #line + 1
        line[field], line[field + 1] = start > now and start or deadline, number .. cut(draft, 11, 18) .. key
        answers[row] = number .. stamp
      end
    end
  end
end
-- All that is written was read by now, so that another type under one of these fails the call before its first write; but
-- `request`, which is written first.
local counts = {}
for lane, here in pairs(lanes) do
  if lane ~= '' then
    put(counts, 'n|' .. lane, here[1])
    put(counts, 'b|' .. lane, here[2])
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
