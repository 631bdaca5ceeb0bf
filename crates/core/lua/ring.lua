#!lua flags=allow-oom
--[[
ring: put back a token that was taken without a free slot.

KEYS[1] bell  LIST  tokens for sleeping workers

Returns one answer
        'rung'

Holds   A hint only: a token too many wakes a worker for nothing, a lost one costs a safety poll.
        Bounded: nothing is added to a full bell.
]]
ring(KEYS[1])
return {'rung'}
