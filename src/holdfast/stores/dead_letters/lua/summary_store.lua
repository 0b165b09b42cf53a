-- Stores a summary unless there is one of its id. KEYS[1] is the beginning of all keys; write.lua draws them. Arguments:
-- the key of the call, id, domain, status, count, time of compression in microseconds ("" is now), then names and values
-- of the other fields. Answers 1 if it was stored, under this key perhaps earlier.
local base, key = KEYS[1], KEYS[1] .. 'c:' .. ARGV[2]
if redis.call('EXISTS', key) == 1 then
    return redis.call('HGET', key, 'key') == ARGV[1] and 1 or 0
end
local compressed = ARGV[6] == '' and string.format('%.0f', now_ms() * 1000) or ARGV[6]
redis.call('HSET', key, 'key', ARGV[1], 'domain', ARGV[3], 'status', ARGV[4], 'count', ARGV[5],
    'compressed', compressed, unpack(ARGV, 7))
redis.call('ZADD', base .. 'sums', compressed, ARGV[2])
redis.call('ZADD', base .. 'sums:' .. ARGV[3], compressed, ARGV[2])
redis.call('HINCRBY', base .. 'totals', ARGV[4], 1)
redis.call('HINCRBY', base .. 'totals', ARGV[4] .. ':items', ARGV[5])
return 1
