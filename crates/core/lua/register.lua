#!lua flags=allow-oom
--[[
register: a row of one of the two registries that lie beside the shards.

KEYS[1] queues or workers  HASH  queue -> shards and schema; session -> when it was last seen, and what it says of itself;
                                 '-' and session -> when that worker ended
ARGV[1] queue, worker, or ended: a worker that is to be seen no more
ARGV[2] name of the row
ARGV[3] value: of a queue "shards schema"; of a worker whatever is to be shown; of an ended one nothing
ARGV[4] age in ms at which a worker's row is forgotten

Returns one answer
        {'registered', now}  the row says so; the server's time in ms
        {'differs', value}   the queue was registered with this value before; nothing was written
        {'ended', now}       the worker has ended, now or before, and no row shows it; the server's time in ms

Holds   The number of shards of a queue never changes once it is used.
        Repeatable: a second copy writes the same.
        A worker that has ended does not come back: what it sent before and arrives after its end shows nothing.
        Clock: the server's, in ms.
]]
local registry, kind, name, value, age = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if (kind ~= 'queue' and kind ~= 'worker' and kind ~= 'ended') or name == '' or not age then
  return redis.error_reply('BADARG register: queue, worker or ended, a name, a value, an age')
end
allowed('HSET', 'HDEL')
local now = clock()
if kind == 'queue' then
  local kept = redis.call('HGET', registry, name)
  if kept and kept ~= value then
    return {{'differs', kept}}
  elseif not kept then
    redis.call('HSET', registry, name, value)
  end
  return {{'registered', digits(now)}}
end
local answer = 'registered'
if kind == 'ended' then
  redis.call('HSET', registry, '-' .. name, struct.pack('>I8', now))
  redis.call('HDEL', registry, name)
  answer = 'ended'
elseif redis.call('HGET', registry, '-' .. name) then
  answer = 'ended'
else
  redis.call('HSET', registry, name, struct.pack('>I8', now) .. value)
end
local rows, old = redis.call('HRANDFIELD', registry, 8, 'WITHVALUES'), {}
for at = 1, #rows, 2 do
  if #rows[at + 1] < 8 or struct.unpack('>I8', rows[at + 1], 1) + age < now then
    old[#old + 1] = rows[at]
  end
end
flush('HDEL', registry, old)
return {{answer, digits(now)}}
