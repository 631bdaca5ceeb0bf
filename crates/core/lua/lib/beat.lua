-- beat: when somebody last renewed or reclaimed here, and how an outage is told from a dead worker.

-- What the beat is to be, for HSET once nothing can fail any more. Whoever finds it older than half of the longest lease
-- has met an outage: leases that end until half a lease from now are nobody's fault. A beat or a pardon from the future
-- (the clock went back) is lowered. Returns the fields to write, the end of the pardon and the longest lease, both 0
-- where there is none.
local function watch_beat(meta, now)
  local state = redis.call('HMGET', meta, 'beat', 'forgiven_to', 'longest_lease')
  local beat, pardon, longest = tonumber(state[1]) or now, tonumber(state[2]) or 0, tonumber(state[3]) or 0
  local half = math.floor(longest / 2)
  local fields = {'beat', digits(now)}
  if longest > 0 and now - beat > half or pardon > now + half then
    pardon = now + half
    put(fields, 'forgiven_to', digits(pardon))
  end
  return fields, pardon, longest
end
