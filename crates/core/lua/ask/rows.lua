#!lua flags=no-writes
--[[
rows: a whole hash of which others choose the names. It is no step of the protocol: it only reads.

KEYS[1]  the hash

Returns one answer a row
        {name, value}

Holds   Each row is an array of two whatever stands in the hash, so that the client cannot take it for a message of a channel.
]]
local rows, answers = redis.call('HGETALL', KEYS[1]), {}
for at = 1, #rows, 2 do
  answers[#answers + 1] = {rows[at], rows[at + 1]}
end
return answers
