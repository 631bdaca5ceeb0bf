#!lua flags=allow-oom
--[[
renew: prolong leases that are still ours.

KEYS[1] leased  ZSET  fence|handle, scored by the end of the lease (ms)
KEYS[2] ticket  HASH  key -> packed state
KEYS[3] meta    HASH  beat, forgiven_to, longest_lease
ARGV[1] lease in ms
ARGV rows of 2: fence, handle

Returns one answer a row, in the order of the rows
        till              ours for another `till` ms
        {'cancel', till}  ours, but its caller wants it stopped
        'lost'            not ours any more, or past deadline + lease: nothing was written

Holds   Fenced: what is no member of leased is not written.
        Nothing is held for ever: a lease ends at deadline + lease.
        An outage is nobody's fault: who finds beat older than half a lease forgives what expires until half a lease on.
        Repeatable: a second run only prolongs once more.
        Clock: the server's, in ms; a worker's clock never decides about a lease.
]]
local leased, ticket_key, meta, lease = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])
if not lease or lease <= 0 or (#ARGV - 1) % 2 ~= 0 or #ARGV - 1 > 2 * MOST_ROWS then
  return redis.error_reply('BADARG renew: a lease above 0 ms, then up to 256 rows of 2')
end
local handles, owners = {}, {}
for at = 2, #ARGV, 2 do
  if #ARGV[at] ~= 32 or #ARGV[at + 1] ~= 32 then
    return redis.error_reply('BADARG renew: a fence and a handle of 32 bytes each')
  end
  handles[at / 2], owners[at / 2] = ARGV[at + 1], ARGV[at] .. '|' .. ARGV[at + 1]
end

allowed('HSET', 'ZADD')
local now = clock()
local beat = watch_beat(meta, now)
local tickets, names = tickets_of(ticket_key, handles)
local answers, till = {}, {}
local held = #owners > 0 and redis.call('ZMSCORE', leased, unpack(owners))
for at, handle in ipairs(handles) do
  local ticket = tickets[names[at]]
  local ours = held[at] and readable(ticket) and is_of(ticket, handle)
  local expiry = ours and math.min(now, deadline_in(ticket)) + lease
  if ours and expiry > now then
    till[#till + 1], till[#till + 2] = digits(expiry), owners[at]
    answers[at] = byte(ticket, 2) % 2 == 1 and {'cancel', expiry - now} or expiry - now
  else
    answers[at] = 'lost'
  end
end
flush('HSET', meta, beat)
if #till > 0 then
  redis.call('ZADD', leased, 'XX', unpack(till))
end
return answers
