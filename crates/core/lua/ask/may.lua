#!lua flags=no-writes
--[[
may: whether the user that asks may do what is named. It is no step of the protocol: nothing is read or written.

KEYS[1]  a key of the node that is asked
ARGV rows of 4: a command and its words, the last ones empty where it takes fewer

Returns one answer a row, in the order of the rows
        {'yes'}, {'no'}
        {'unknown'}  the server has no such command

Holds   Commands, keys and channels are asked for together. No right but to run a script is needed to ask.
]]
local answers = {}
for at = 1, #ARGV, 4 do
  local words = {}
  for place = at, at + 3 do
    if ARGV[place] ~= '' then
      words[#words + 1] = ARGV[place]
    end
  end
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  answers[#answers + 1] = {not known and 'unknown' or may and 'yes' or 'no'}
end
return answers
