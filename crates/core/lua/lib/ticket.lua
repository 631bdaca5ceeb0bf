-- ticket: how the packed state of a request is read (layout: docs/protocol.md, "Ticket"). Places count from 1.
--   1 version, 2 flags (1: cancel asked), 3 sequence, 11 generation, 19 digest, 51 deadline, 59 not_before,
--   67 submitted_at, 75 body size, 79 attempts, 83 lapses, 85 forgiven, 87 fence, 119 claimed_at,
--   127 fence and 159 word of the last settle, 160 code, 161 status and 163 time of the last failure,
--   171 generation, 179 outcome and 180 end of the previous run, 188 length of the names, 190 names, then what
--   a newer version added.
local NO_FENCE = string.rep('\0', 32)

-- What is called for each item, without a look into a table of functions each time.
local byte, cut, find, pack, unpack = string.byte, string.sub, string.find, struct.pack, unpack

-- The most rows of one call: more would hold up the server, and some thousands fail half-way, where Lua has no way back.
local MOST_ROWS = 256

-- The server's clock, in ms: a caller's clock never decides about a lease.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A number in all its digits: Lua's own text of a large one is 1.7e+12. An argument that is used once needs none of this:
-- Redis tells a number whole, and faster.
local function digits(number)
  return string.format('%.0f', number)
end

-- Its flags, if it is whole and of this version.
local function readable(ticket)
  if not ticket or #ticket < 189 then
    return false
  end
  local version, flags = byte(ticket, 1, 2)
  local high, low = byte(ticket, 188, 189)
  return version == 1 and #ticket >= 189 + 256 * high + low and flags
end

local function handle_in(ticket, key)
  return cut(ticket, 3, 18) .. key
end

-- Whether a ticket that lies under the key of this handle is of its generation: one string less than to compare two.
local function is_of(ticket, handle)
  return find(ticket, cut(handle, 1, 16), 3, true) == 3
end

local function deadline_in(ticket)
  return (struct.unpack('>I8', ticket, 51))
end

-- Two lapses, or three with the forgiven ones counted: it waits apart from the others.
local function suspected(ticket)
  local lapses, forgiven = struct.unpack('>I2I2', ticket, 83)
  return lapses >= 2 or lapses + forgiven >= 3
end

-- The same ticket without an owner.
local function unowned(ticket)
  if byte(ticket, 87) == 0 then
    return ticket
  end
  return cut(ticket, 1, 86) .. NO_FENCE .. cut(ticket, 119)
end

-- Tickets of many handles in one call, each at its place, or false where there is none; and the keys.
local function tickets_in(hash, handles)
  local keys = {}
  for at = 1, #handles do
    keys[at] = cut(handles[at], 17)
  end
  if #keys == 0 then
    return {}, keys
  end
  return redis.call('HMGET', hash, unpack(keys)), keys
end

-- The same for who asks by key: key -> ticket, or false; and the keys.
local function tickets_of(hash, handles)
  local found, values, keys = {}, tickets_in(hash, handles)
  for at = 1, #keys do
    found[keys[at]] = values[at]
  end
  return found, keys
end

-- Adds arguments to a command that runs once for the whole batch: one, two, or more.
local function put(list, first, second, ...)
  local size = #list
  list[size + 1] = first
  if second then
    list[size + 2] = second
    for at = 1, select('#', ...) do
      list[size + 2 + at] = (select(at, ...))
    end
  end
end

-- Runs a gathered command, if anything was gathered.
local function flush(command, key, list)
  if #list > 0 then
    redis.call(command, key, unpack(list))
  end
end

-- How many tokens wait. A bell is a hint, which must not fail what it tells of: one that is no list counts as full.
local function tokens(bell)
  local count = redis.pcall('LLEN', bell)
  return type(count) == 'number' and count or 64
end

-- A token for a sleeping worker; a short bell is enough, since who finds more rings again.
local function ring(bell)
  if tokens(bell) < 64 then
    redis.call('RPUSH', bell, '1')
  end
end
