#!lua flags=allow-oom
--[[
policy: write a queue's settings into its shard, where the scripts read them.

KEYS[1] meta  HASH  schema, max_lapses, retention, dead_retention, capacity, capacity_bytes, in_flight, policy_version
KEYS[2] bell  LIST  tokens for sleeping workers
ARGV[1] schema that the caller speaks
ARGV[2] 1 to write what differs, 0 to look only
ARGV rows of 2: field, value; an empty value removes the field

Returns one answer
        {'same', version}     the shard says what the rows say
        {'written', version}  it said something else, and now says this, under a new version
        {'differs', version}  it says something else; nothing was written
        {'newer', schema}     the shard belongs to a newer schema; nothing was written

Holds   The last start wins; a look tells the caller that another has won since.
        Repeatable: a second copy finds the same values.
        Operators' overrides are fields of their own and not touched.
]]
local meta, bell, schema, write = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2] == '1'
if not schema or #ARGV % 2 ~= 0 then
  return redis.error_reply('BADARG policy: a schema, 1 or 0, then rows of 2')
end
allowed('HSET', 'HDEL', 'RPUSH')
local kept = redis.call('HMGET', meta, 'schema', 'policy_version')
local version = tonumber(kept[2]) or 0
if kept[1] and tonumber(kept[1]) > schema then
  return {{'newer', tonumber(kept[1])}}
end
local changed, removed = {}, {}
for at = 3, #ARGV, 2 do
  local value = redis.call('HGET', meta, ARGV[at])
  if ARGV[at + 1] == '' then
    if value then
      removed[#removed + 1] = ARGV[at]
    end
  elseif value ~= ARGV[at + 1] then
    put(changed, ARGV[at], ARGV[at + 1])
  end
end
if #changed + #removed == 0 then
  return {{'same', version}}
elseif not write then
  return {{'differs', version}}
end
put(changed, 'schema', digits(schema), 'policy_version', digits(version + 1))
flush('HSET', meta, changed)
flush('HDEL', meta, removed)
-- A raised limit may let something run.
ring(bell)
return {{'written', version + 1}}
