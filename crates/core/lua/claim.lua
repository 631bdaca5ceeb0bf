#!lua flags=allow-oom
--[[
claim: lease what a worker session has free slots for, or hand out again what the same call has leased before.

KEYS[1]  pending   ZSET  handle, scored by deadline (ms)
KEYS[2]  suspects  ZSET  handle, scored by deadline
KEYS[3]  delayed   ZSET  handle, scored by due time
KEYS[4]  leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5]  finished  ZSET  handle, scored by end of retention
KEYS[6]  dead      ZSET  handle, scored by end of retention
KEYS[7]  request   HASH  key -> tenant, id, lane, envelope and body
KEYS[8]  ticket    HASH  key -> packed state
KEYS[9]  result    HASH  key -> terminal record
KEYS[10] sessions  HASH  session -> last call number, when, its handles
KEYS[11] meta      HASH  suspect, longest_lease, paused, limit, in_flight, bytes
KEYS[12] lanes     HASH  n|lane, b|lane -> requests and bytes held
KEYS[13] bell      LIST  tokens for sleeping workers
KEYS[14] ended     channel: keys and generations that ended
ARGV[1] fence: the session and its call number, 16 hex digits each
ARGV[2] free slots, 0 to 256
ARGV[3] lease in ms
ARGV[4] byte budget for the bodies of one call
ARGV[5] 1 if the caller may take a suspect, else 0
ARGV[6] the latest time (ms) at which what is past its deadline may be ended: beyond it the clock has leapt
ARGV[7] what was submitted comes along with new leases if its bodies together are fewer bytes than this; 0: none

Returns 'stale' alone: a later call of this session has run; nothing was written. Else
        {'claimed', next_due, more, now}                  ms until something delayed is due, or -1; 1 if the caller
                                                          would find more at once; the server's time in ms
        {'lease', handle, ticket, left, till, asked, request, handle...}
                                                          all leases, six values each, in one array, which costs a third of
                                                          an array each: ms until its deadline, ms until the lease ends, 1
                                                          if its caller wants it stopped; what was submitted, if it comes
                                                          along, else nothing
        {'ended', handle, outcome}...                     what this call ended on the way

Holds   Order: earliest deadline first, equal ones by submission; nothing that is held blocks another.
        One suspect: its head is taken only while no other suspect of the shard is leased.
        Repeatable: by the call number; the same number renews and hands out what it leased, as far as it is still held.
        Opaque: what comes along is read, and neither looked into nor moved.
        Bounded: promotes 64, ends 32 a set, leases as many as there are free slots; 256 in all, and more tells of a rest.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], leased = KEYS[4], finished = KEYS[5],
  dead = KEYS[6], request = KEYS[7], ticket = KEYS[8], result = KEYS[9], sessions = KEYS[10], meta = KEYS[11],
  lanes = KEYS[12], bell = KEYS[13], ended = KEYS[14]}
local fence, free, lease, budget = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local may_suspect, trusted_until, along = ARGV[5] == '1', tonumber(ARGV[6]), tonumber(ARGV[7])
local call = #fence == 32 and tonumber(fence:sub(17), 16)
if not call or not free or free < 0 or free > 256 or not lease or lease <= 0 or not budget or not trusted_until
  or not along then
  return redis.error_reply('BADARG claim: a fence of 32 hex digits, 0 to 256 slots, a lease above 0 ms, a byte budget, a time, a limit')
end

allowed('ZADD', 'ZREM', 'ZREMRANGEBYRANK', 'HINCRBY', 'HSET', 'HDEL', 'DEL', 'RPUSH')
local now = clock()
local may_expire = now <= trusted_until
local session = fence:sub(1, 16)
local row = redis.call('HGET', keys.sessions, session)
local last = row and tonumber(row:sub(1, 16), 16)
if last and call < last then
  return {'stale'}
end
local meta = redis.call('HMGET', keys.meta, 'paused', 'limit', 'in_flight', 'suspect', 'longest_lease')
local paused, limit = meta[1] == '1', tonumber(meta[2] or meta[3])
local answers, leases, busy = {{'claimed', -1, 0, now}}, {'lease'}, false
-- What leaves where it waits; what of it ends is gathered by what is made when it is wanted, which is seldom.
local removed, batch = {pending = {}, suspects = {}}, nil
local function ends()
  batch = batch or endings(keys, now, removed)
  return batch
end
local next_due = redis.call('ZRANGE', keys.delayed, 0, 0, 'WITHSCORES')[2]
-- How much could be leased now and is left for others.
local pending, suspects = 0, 0

-- The place of a handle among equal deadlines. What is none has no place, and leaves all the same.
local function sequence_in(handle)
  return #handle == 32 and struct.unpack('>I8', handle) or 0
end

-- Tells a lease, as the one at this place.
local function tell(at, handle, ticket, deadline, expiry, flags)
  local last = 6 * at + 1
  leases[last - 5], leases[last - 4], leases[last - 3], leases[last - 2], leases[last - 1], leases[last] =
    handle, ticket, deadline - now, expiry - now, flags % 2, false
end

-- Puts what was submitted beside the leases of these, which are all.
local function bring(handles)
  local keys_of = {}
  for at, handle in ipairs(handles) do
    keys_of[at] = handle:sub(17)
  end
  -- Only a saving: what can't be read here must not fail what has begun. The worker reads it beside, and sees why.
  local requests = redis.pcall('HMGET', keys.request, unpack(keys_of))
  for at = 1, requests.err and 0 or #handles do
    leases[6 * at + 1] = requests[at]
  end
end

if last == call then
  local handles, till = {}, {}
  for at = 25, #row, 32 do
    handles[#handles + 1] = row:sub(at, at + 31)
  end
  local tickets = tickets_of(keys.ticket, handles)
  -- All that is read below: another type under one of these fails the call before its first write.
  redis.call('ZCARD', keys.leased)
  if may_expire then
    pending, suspects = redis.call('ZCARD', keys.pending), redis.call('ZCARD', keys.suspects)
  else
    pending = redis.call('ZCOUNT', keys.pending, '(' .. digits(now), '+inf')
    suspects = redis.call('ZCOUNT', keys.suspects, '(' .. digits(now), '+inf')
  end
  for _, handle in ipairs(handles) do
    local ticket, member = tickets[handle:sub(17)], fence .. '|' .. handle
    if readable(ticket) and handle_in(ticket, handle:sub(17)) == handle and redis.call('ZSCORE', keys.leased, member) then
      local deadline = deadline_in(ticket)
      local expiry = math.min(now, deadline) + lease
      if expiry > now then
        put(till, digits(expiry), member)
        tell(#till / 2, handle, ticket, deadline, expiry, byte(ticket, 2))
      end
    end
  end
  if #till > 0 then
    redis.call('ZADD', keys.leased, 'XX', unpack(till))
    answers[2] = leases
  end
  redis.call('HSET', keys.sessions, session, row:sub(1, 16) .. struct.pack('>I8', now) .. row:sub(25))
else
  local out, due = redis.call('ZCARD', keys.leased), {}
  if next_due and tonumber(next_due) <= now then
    due = due_of(keys, now, 64)
  end
  if #due > 0 then
    -- Otherwise each of these is read before the first write, and fails the call there if it holds another type.
    redis.call('ZCARD', keys.pending)
    redis.call('ZCARD', keys.suspects)
    may_publish(keys)
    promote_due(keys, now, due)
    next_due = redis.call('ZRANGE', keys.delayed, 0, 0, 'WITHSCORES')[2]
  end
  -- What upkeep has touched counts: a call handles so many items, whatever it does with them.
  local rest = MOST_ROWS - #due
  local room = paused and 0 or math.min(free, rest, limit and limit - out or free)
  -- The heads tell whether anything is late, which is seldom, and one more than there is room for, whether anything is left.
  local first, from_head = redis.call('ZRANGE', keys.pending, 0, math.max(room, 0), 'WITHSCORES'), true
  local head = redis.call('ZRANGE', keys.suspects, 0, 0, 'WITHSCORES')
  local late, ended, seen = false, {}, 0
  if first[1] and tonumber(first[2]) <= now or head[1] and tonumber(head[2]) <= now then
    if may_expire then
      late, ended, seen = expire_heads(keys, now, ends(), 32)
    end
    rest = rest - seen
    room = math.min(room, rest)
    -- From now on: what could not be ended holds nothing up.
    from_head = false
    first = redis.call('ZRANGEBYSCORE', keys.pending, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', 0, math.max(room, 0) + 1)
    head = redis.call('ZRANGEBYSCORE', keys.suspects, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  busy = #due == 64 or late
  local ended_before = #removed.pending
  local handles, deadlines, suspected_at, known, deadline = {}, {}, 0, nil, nil
  for at = 1, math.min(#first / 2, room) do
    -- A number read from text is dear, and the next one is often the same.
    local text = first[2 * at]
    if text ~= known then
      known, deadline = text, tonumber(text)
    end
    handles[at], deadlines[at] = first[2 * at - 1], deadline
  end
  if head[1] and room > 0 and may_suspect and not (meta[4] and redis.call('ZSCORE', keys.leased, meta[4])) then
    local place, sequence, deadline = 1, sequence_in(head[1]), tonumber(head[2])
    while deadlines[place] and (deadlines[place] < deadline
      or deadlines[place] == deadline and sequence_in(handles[place]) < sequence) do
      place = place + 1
    end
    table.insert(handles, place, head[1])
    table.insert(deadlines, place, deadline)
    suspected_at = place
  end

  local found, names = tickets_in(keys.ticket, handles)
  local taken, count, size, leased, tickets, suspect = {}, 0, 0, {}, {}, nil
  local stamp = pack('>I8', now)
  -- Nothing that is leased is late, so that all leases end at one time: its text is made once.
  local owner, expiry, till = fence .. stamp, now + lease, nil
  for at, handle in ipairs(handles) do
    local deadline, home = deadlines[at], at == suspected_at and 'suspects' or 'pending'
    local key = names[at]
    local ticket = found[at]
    local flags = readable(ticket)
    if count == room or at > rest then
      break
    elseif #handle ~= 32 then
      -- No handle of ours, and nothing to end.
      put(removed[home], handle)
    elseif not flags then
      finish(ends(), handle, mend(keys, handle), UNUSABLE, 0, NO_ANSWER)
      put(removed[home], handle)
      ended[#ended + 1] = {handle, UNUSABLE}
    elseif not is_of(ticket, handle) then
      put(removed[home], handle)
    else
      local body, attempts, lapses = struct.unpack('>I4I4I4', ticket, 75)
      if count > 0 and size + body > budget then
        break
      end
      count, size = count + 1, size + body
      if count == 1 then
        till = digits(expiry)
      end
      local member, left = fence .. '|' .. handle, removed[home]
      ticket = cut(ticket, 1, 78) .. pack('>I4I4', attempts + 1, lapses) .. owner .. cut(ticket, 127)
      taken[count], left[#left + 1] = handle, handle
      tickets[2 * count - 1], tickets[2 * count] = key, ticket
      leased[2 * count - 1], leased[2 * count] = till, member
      if home == 'suspects' then
        suspect = member
      end
      tell(count, handle, ticket, deadline, expiry, flags)
    end
  end
  pending = #first / 2 - (#removed.pending - ended_before)
  if batch then
    publish(batch, keys)
  else
    if from_head and #removed.pending > 0 then
      -- What leaves stood first, one behind the other, so that Redis need not look for each.
      redis.call('ZREMRANGEBYRANK', keys.pending, 0, #removed.pending - 1)
    else
      flush('ZREM', keys.pending, removed.pending)
    end
    flush('ZREM', keys.suspects, removed.suspects)
  end
  flush('HSET', keys.ticket, tickets)
  flush('ZADD', keys.leased, leased)
  if suspect then
    redis.call('HSET', keys.meta, 'suspect', suspect)
    meta[4] = suspect
  end
  local longest = tonumber(meta[5]) or 0
  if count > 0 and (lease > longest or out == 0 and lease < longest) then
    redis.call('HSET', keys.meta, 'longest_lease', digits(lease))
  end
  redis.call('HSET', keys.sessions, session, fence:sub(17) .. stamp .. table.concat(taken))
  -- Whether another suspect stands behind the head is asked only once that is gone, and all is written.
  suspects = head[1] and redis.call('ZCOUNT', keys.suspects, '(' .. digits(now), '+inf') or 0
  if count > 0 and size < along then
    bring(taken)
  end
  if count > 0 then
    answers[2] = leases
  end
  for _, item in ipairs(ended) do
    answers[#answers + 1] = {'ended', item[1], item[2]}
  end
end

if next_due then
  answers[1][2] = math.max(0, tonumber(next_due) - now)
end
if pending + suspects == 0 and not busy then
  -- Nothing is left for anybody: what lies in the bell would only wake workers for nothing.
  redis.call('DEL', keys.bell)
elseif busy or not paused and not (limit and redis.call('ZCARD', keys.leased) >= limit) and (pending > 0
  or may_suspect and not (meta[4] and redis.call('ZSCORE', keys.leased, meta[4]))) then
  answers[1][3] = 1
  if tokens(keys.bell) == 0 then
    redis.call('RPUSH', keys.bell, '1')
  end
end
return answers
