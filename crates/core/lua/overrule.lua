#!lua flags=allow-oom
--[[
overrule: an operator's pause or limit, which wins over the policy until it is cleared.

KEYS[1] meta  HASH  paused, limit, limit_total, and the version of each
KEYS[2] bell  LIST  tokens for sleeping workers
ARGV[1] field: paused or limit
ARGV[2] decide (shard 0: compare and set) or take (the other shards)
ARGV[3] version: decide: the one its caller saw; take: the one that shard 0 gave
ARGV[4] value: 1 or empty for paused, this shard's share or empty for limit; empty clears
ARGV[5] total: the limit over all shards, or empty

Returns one answer
        {'set', version}             the shard says this now, under this version
        {'already', version}         it did so before; nothing was written
        {'newer', version, total}    decide: somebody was faster; take: a later version is here; nothing was written

Holds   Compare-and-set: a late copy of an older word never wins over a newer one.
        Repeatable: an equal version with an equal value is 'already'.
]]
local meta, bell, field, mode, version, value, total = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
if (field ~= 'paused' and field ~= 'limit') or (mode ~= 'decide' and mode ~= 'take') or not version
  or (value ~= '' and not tonumber(value)) or (total ~= '' and not tonumber(total)) then
  return redis.error_reply('BADARG overrule: paused or limit, decide or take, a version, a value, a total')
end
allowed('HSET', 'HDEL', 'RPUSH')
local kept = redis.call('HMGET', meta, field, field .. '_version', field .. '_total')
local held, said = tonumber(kept[2]) or 0, kept[1] or ''
local goal = mode == 'decide' and version + 1 or version
if held == goal and said == value and (kept[3] or '') == total then
  return {{'already', held}}
elseif mode == 'decide' and held ~= version or mode == 'take' and held >= version then
  return {{'newer', held, kept[3] or ''}}
end
redis.call('HSET', meta, field .. '_version', digits(goal))
for name, now in pairs({[field] = value, [field .. '_total'] = total}) do
  if now == '' then
    redis.call('HDEL', meta, name)
  else
    redis.call('HSET', meta, name, now)
  end
end
ring(bell)
return {{'set', goal}}
