-- Writes a new record; write.lua draws the keys. Arguments: id, key of the change, JSON, domain, failure type, status and
-- its number, then name and score of each index by a time that it joins ("now" is the time). Answers when it was made, in
-- microseconds: also if it was made before, since an id is made once.
local base, id, domain, failure_type = KEYS[1], ARGV[1], ARGV[4], ARGV[5]
local key = base .. 'r:' .. id
local known = redis.call('HGET', key, 'c')
if known then
    return string.match(known, '^%d+')
end
local now = now_ms()
local made, place = string.format('%.0f', now * 1000), string.format('%.0f', ARGV[7] * 2 ^ 48 + now)
local kind = #domain .. ':' .. domain .. ':' .. failure_type
redis.call('HSET', key, 'b', ARGV[3], 'k', ARGV[2], 'c', made .. ' ' .. kind)
redis.call('HINCRBY', base .. 'counts', ARGV[6] .. ':' .. kind, 1)
redis.call('ZADD', base .. 'all', place, id)
redis.call('ZADD', base .. 'd:' .. domain, place, id)
redis.call('ZADD', base .. 't:' .. failure_type, place, id)
redis.call('ZADD', base .. 'dt:' .. kind, place, id)
for i = 8, #ARGV, 2 do
    redis.call('ZADD', base .. ARGV[i], ARGV[i + 1] == 'now' and made or ARGV[i + 1], id)
end
return made
