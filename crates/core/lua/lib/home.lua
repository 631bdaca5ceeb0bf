-- home: where a generation is. Membership alone says so; nothing in the ticket does.
local HOMES = {'pending', 'suspects', 'delayed', 'finished', 'dead'}
-- Who was acked is asked for mostly, and has mostly stayed where that left it.
local ACKED_HOMES = {'finished', 'pending', 'suspects', 'delayed', 'dead'}

local function home_of(keys, handle, ticket)
  local fence = ticket:sub(87, 118)
  local expiry = fence ~= NO_FENCE and redis.call('ZSCORE', keys.leased, fence .. '|' .. handle)
  if expiry then
    return 'leased', expiry
  end
  for _, home in ipairs(ticket:sub(159, 159) == 'a' and ACKED_HOMES or HOMES) do
    local score = redis.call('ZSCORE', keys[home], handle)
    if score then
      return home, score
    end
  end
  return 'nowhere', '0'
end
