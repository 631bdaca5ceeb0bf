#!lua flags=allow-oom
--[[
settle: end attempts, each as its worker says: ack, retry, release or bury.

KEYS[1]  pending   ZSET  handle, scored by deadline (ms)
KEYS[2]  suspects  ZSET  handle, scored by deadline
KEYS[3]  delayed   ZSET  handle, scored by due time
KEYS[4]  leased    ZSET  fence|handle, scored by the end of the lease
KEYS[5]  finished  ZSET  handle, scored by end of retention
KEYS[6]  dead      ZSET  handle, scored by end of retention
KEYS[7]  request   HASH  key -> tenant, id, lane, envelope and body
KEYS[8]  ticket    HASH  key -> packed state
KEYS[9]  result    HASH  key -> terminal record
KEYS[10] meta      HASH  bytes, limit, in_flight, retentions
KEYS[11] lanes     HASH  n|lane, b|lane -> requests and bytes held
KEYS[12] bell      LIST  tokens for sleeping workers
KEYS[13] ended     channel: keys and generations that ended
ARGV rows of 6: fence, handle, word, number, failure, answer
        ack      number: the gateway's status; answer: packed head and body
        retry    number: ms until the next start; failure: code and status (3 bytes)
        release  number: 1 if something was sent, else 0; failure: 3 bytes or none
        bury     number: the outcome, 4 to 7; failure: 3 bytes; answer: packed head and body, or none

Returns one answer a row, in the order of the rows
        'ok'                done as said
        {'ended', outcome}  retry or release met a cancel or the deadline: ended with this outcome instead
        {'already', word}   this fence has settled it before, with this word; nothing was written
        'fenced'            not this fence's lease: nothing was written
        'gone'              the ticket names another generation, or there is none: nothing was written, but for a
                            lease of a generation that is no more, which is removed

Holds   Fenced: only a member of leased is settled.
        One terminal record: whoever ends a generation publishes it, here and at once.
        Repeatable: by the fence and word of the last settle, kept in the ticket.
        All or nothing: every row, and what lies under every key that is written, is checked before the first write.
        Clock: the server's, in ms.
]]
local keys = {pending = KEYS[1], suspects = KEYS[2], delayed = KEYS[3], leased = KEYS[4], finished = KEYS[5],
  dead = KEYS[6], request = KEYS[7], ticket = KEYS[8], result = KEYS[9], meta = KEYS[10], lanes = KEYS[11],
  bell = KEYS[12], ended = KEYS[13]}
local MARK = {ack = 'a', retry = 't', release = 'r', bury = 'b'}
local WORD = {a = 'ack', t = 'retry', r = 'release', b = 'bury'}
local rows, handles, members, numbers = ARGV, {}, {}, {}
if #rows > 6 * MOST_ROWS then
  return redis.error_reply('BADARG settle: up to 256 rows')
end
local text, number
for at = 1, #rows, 6 do
  local word, failure, answer = rows[at + 2], rows[at + 4], rows[at + 5]
  if rows[at + 3] ~= text then
    -- A number read from text is dear, and the next one is often the same.
    text = rows[at + 3]
    number = tonumber(text)
  end
  if #rows % 6 ~= 0 or #rows[at] ~= 32 or #rows[at + 1] ~= 32 or not MARK[word] or not number or number < 0
    or (#failure ~= 3 and #failure ~= 0) or (word == 'retry' and #failure ~= 3)
    or (word == 'ack' and (#answer < 4 or number > 65535)) or (word == 'bury' and (number < GAVE_UP or number > TOO_LARGE)) then
    return redis.error_reply('BADARG settle: rows of fence, handle, word, number, failure, answer')
  end
  local row = #handles + 1
  handles[row], members[row], numbers[row] = rows[at + 1], rows[at] .. '|' .. rows[at + 1], number
end
if #rows == 0 then
  return {}
end

allowed('HINCRBY', 'HSET', 'ZADD', 'HDEL', 'ZREM', 'RPUSH')
local now = clock()
local found, names = tickets_in(keys.ticket, handles)
local batch, answers, first_of, again = endings(now), {}, {}, {}
local stamp = batch.stamp
local owners, tickets, pending, suspects, delayed, soonest = {}, {}, {}, {}, {}, nil
local held = redis.call('ZMSCORE', keys.leased, unpack(members))
for row, member in ipairs(members) do
  local at, handle = 6 * row - 5, handles[row]
  local fence, word, number, failure, answer = rows[at], rows[at + 2], numbers[row], rows[at + 4], rows[at + 5]
  local key = names[row]
  -- Rows of one request see what those before them made of its ticket, and a lease that one of those has settled is over.
  local at_first, repeated = first_of[key], false
  if at_first then
    repeated = members[at_first] == member or again[member]
    again[member] = true
  else
    at_first, first_of[key] = row, row
  end
  local ticket = found[at_first]
  local whole = readable(ticket)
  local named = whole and is_of(ticket, handle)
  if repeated or not held[row] then
    if not named then
      answers[row] = 'gone'
    elseif fence == NO_FENCE then
      -- Before its first settle a ticket holds no fence in that place: an empty one has settled nothing.
      answers[row] = 'fenced'
    elseif ticket:sub(127, 158) == fence then
      answers[row] = {'already', WORD[ticket:sub(159, 159)]}
    else
      answers[row] = 'fenced'
    end
  elseif not whole then
    owners[#owners + 1] = member
    ticket = mend(keys, handle)
    finish(batch, handle, ticket, UNUSABLE, 0, NO_ANSWER)
    found[at_first] = ticket
    answers[row] = {'ended', UNUSABLE}
  elseif not named then
    owners[#owners + 1] = member
    answers[row] = 'gone'
  else
    owners[#owners + 1] = member
    local counts, rest = cut(ticket, 1, 86), cut(ticket, 160)
    if word == 'release' and number == 0 then
      local attempts = struct.unpack('>I4', ticket, 79)
      counts = cut(ticket, 1, 78) .. pack('>I4', math.max(attempts - 1, 0)) .. cut(ticket, 83, 86)
    end
    if #failure == 3 then
      rest = failure .. stamp .. cut(ticket, 171)
    end
    ticket = counts .. NO_FENCE .. cut(ticket, 119, 126) .. fence .. MARK[word] .. rest
    found[at_first] = ticket
    if word == 'ack' then
      finish(batch, handle, ticket, ANSWERED, number, answer)
      answers[row] = 'ok'
    elseif word == 'bury' then
      local status = #failure == 3 and struct.unpack('>I2', failure, 2) or 0
      finish(batch, handle, ticket, number, status, #answer >= 4 and answer or NO_ANSWER)
      answers[row] = 'ok'
    else
      local asked, deadline = byte(ticket, 2) % 2 == 1, deadline_in(ticket)
      local start = word == 'retry' and now + number or now
      if asked or start >= deadline then
        local outcome = asked and CANCELLED or DEADLINE_EXCEEDED
        finish(batch, handle, ticket, outcome, 0, NO_ANSWER)
        answers[row] = {'ended', outcome}
      else
        put(tickets, key, ticket)
        if word == 'retry' then
          put(delayed, digits(start), handle)
          soonest = math.min(soonest or start, start)
        else
          put(suspected(ticket) and suspects or pending, digits(deadline), handle)
        end
        answers[row] = 'ok'
      end
    end
  end
end
if #owners == 0 then
  return answers
end

-- What sleeps until the next due time must hear of an earlier one.
local due = soonest and redis.call('ZRANGE', keys.delayed, 0, 0, 'WITHSCORES')[2]
local first = soonest and (not due or soonest < tonumber(due))
local limits = redis.call('HMGET', keys.meta, 'limit', 'in_flight')
-- What is written and not read before: another type there must fail the call now.
if #pending > 0 then
  redis.call('ZCARD', keys.pending)
end
if #suspects > 0 then
  redis.call('ZCARD', keys.suspects)
end
publish(batch, keys)
flush('HSET', keys.ticket, tickets)
flush('ZADD', keys.pending, pending)
flush('ZADD', keys.suspects, suspects)
flush('ZADD', keys.delayed, delayed)
flush('ZREM', keys.leased, owners)
local freed = (limits[1] or limits[2]) and redis.call('EXISTS', keys.pending) == 1
if #pending > 0 or first or freed or redis.call('EXISTS', keys.suspects) == 1 then
  ring(keys.bell)
end
return answers
