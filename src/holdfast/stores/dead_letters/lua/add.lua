-- Writes a new record; write.lua draws the keys. Arguments: id, version, key of the change, JSON, the name of its count,
-- then name and score of each index it joins ("now" is the time). Answers when it was made, in microseconds: also if it
-- was made before, since an id is made once.
local base, id = KEYS[1], ARGV[1]
local key = base .. 'r:' .. id
local known = redis.call('HGET', key, 'c')
if known then
    return known
end
local made = string.format('%.0f', now_ms() * 1000)
redis.call('HSET', key, 'b', ARGV[4], 'v', ARGV[2], 'k', ARGV[3], 'c', made)
redis.call('HINCRBY', base .. 'counts', ARGV[5], 1)
for i = 6, #ARGV, 2 do
    redis.call('ZADD', base .. ARGV[i], ARGV[i + 1] == 'now' and made or ARGV[i + 1], id)
end
return made
