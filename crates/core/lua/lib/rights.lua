-- rights: who lacks the right to a write is told so before the first one, not between two of them.
local ASKED_WITH = {DEL = {}, HDEL = {'f'}, HINCRBY = {'f', '1'}, HSET = {'f', '1'}, RPUSH = {'1'}, ZADD = {'1', 'm'},
  ZREM = {'m'}, ZREMRANGEBYRANK = {'0', '0'}}

-- Fails the call if its user may not send one of these. Whether it may write each key is no question: otherwise Redis
-- would not have let the script in.
local function allowed(...)
  for at = 1, select('#', ...) do
    local command = select(at, ...)
    if not redis.acl_check_cmd(command, KEYS[1], unpack(ASKED_WITH[command])) then
      error({err = "NOPERM no permissions to run the '" .. command:lower() .. "' command"})
    end
  end
end
