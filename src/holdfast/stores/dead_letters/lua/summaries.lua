-- Reads some summaries, the newest first. Arguments: the index, how many to pass over, how many at most. Answers id and
-- hash of each.
local answer = {}
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1] .. ARGV[1], ARGV[2], ARGV[2] + ARGV[3] - 1)) do
    answer[#answer + 1] = {id, redis.call('HGETALL', KEYS[1] .. 'c:' .. id)}
end
return answer
