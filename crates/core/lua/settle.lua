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
ARGV rows of 3: fence|handle, end, answer. An end is a word, as the ticket keeps it, a number u64be, and a failure: code and
        status (3 bytes), or nothing
        a  ack      number: the gateway's status; answer: packed head and body
        t  retry    number: ms until the next start; a failure
        r  release  number: 1 if something was sent, else 0
        b  bury     number: the outcome, 4 to 7; answer: packed head and body, or none

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
local WORD = {a = 'ack', t = 'retry', r = 'release', b = 'bury'}
local rows, members, names, ends = ARGV, {}, {}, {}
if #rows % 3 ~= 0 or #rows > 3 * MOST_ROWS then
  return redis.error_reply('BADARG settle: up to 256 rows of 3')
end

-- An end: its word, number and failure, and how long an answer it takes at least. Nothing, where it makes no sense.
local function end_in(text)
  if #text ~= 9 and #text ~= 12 then
    return nil
  end
  local word, number, failure = cut(text, 1, 1), (struct.unpack('>I8', text, 2)), cut(text, 10)
  if not WORD[word] or (word == 'a' and number > 65535) or (word == 't' and failure == '')
    or (word == 'b' and (number < GAVE_UP or number > TOO_LARGE)) then
    return nil
  end
  return {word, number, failure, word == 'a' and 4 or 0}
end
local known, how
for at = 1, #rows, 3 do
  local member, text = rows[at], rows[at + 1]
  if text ~= known then
    -- One is mostly what the one before it was.
    known, how = text, end_in(text)
  end
  if #member ~= 65 or not how or #rows[at + 2] < how[4] then
    return redis.error_reply('BADARG settle: rows of fence|handle, end, answer')
  end
  local row = #members + 1
  members[row], names[row], ends[row] = member, cut(member, 50), how
end
if #rows == 0 then
  return {}
end

allowed('HINCRBY', 'HSET', 'ZADD', 'HDEL', 'ZREM', 'RPUSH')
local now = clock()
local found = redis.call('HMGET', keys.ticket, unpack(names))
local batch, answers, first_of, again = endings(keys, now), {}, {}, {}
local stamp = batch.stamp
local owners, tickets, pending, suspects, delayed, soonest = {}, {}, {}, {}, {}, nil
local held = redis.call('ZMSCORE', keys.leased, unpack(members))
for row = 1, #members do
  local member, key, how, answer = members[row], names[row], ends[row], rows[3 * row]
  local fence, handle, word = cut(member, 1, 32), cut(member, 34), how[1]
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
    record_end(batch, key, handle, ticket, UNUSABLE, 0, NO_ANSWER)
    found[at_first] = ticket
    answers[row] = {'ended', UNUSABLE}
  elseif not named then
    owners[#owners + 1] = member
    answers[row] = 'gone'
  else
    owners[#owners + 1] = member
    local counts, rest = cut(ticket, 1, 86), cut(ticket, 160)
    if word == 'r' and how[2] == 0 then
      local attempts = struct.unpack('>I4', ticket, 79)
      counts = cut(ticket, 1, 78) .. pack('>I4', math.max(attempts - 1, 0)) .. cut(ticket, 83, 86)
    end
    if how[3] ~= '' then
      rest = how[3] .. stamp .. cut(ticket, 171)
    end
    ticket = counts .. NO_FENCE .. cut(ticket, 119, 126) .. fence .. word .. rest
    found[at_first] = ticket
    if word == 'a' then
      record_end(batch, key, handle, ticket, ANSWERED, how[2], answer)
      answers[row] = 'ok'
    elseif word == 'b' then
      local status = how[3] ~= '' and struct.unpack('>I2', how[3], 2) or 0
      record_end(batch, key, handle, ticket, how[2], status, #answer >= 4 and answer or NO_ANSWER)
      answers[row] = 'ok'
    else
      local asked, deadline = byte(ticket, 2) % 2 == 1, deadline_in(ticket)
      local start = word == 't' and now + how[2] or now
      if asked or start >= deadline then
        local outcome = asked and CANCELLED or DEADLINE_EXCEEDED
        record_end(batch, key, handle, ticket, outcome, 0, NO_ANSWER)
        answers[row] = {'ended', outcome}
      else
        put(tickets, key, ticket)
        if word == 't' then
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
