-- Moves a summary on. Arguments: the key of the call, id, new status, then the statuses it may have now. Answers 1 if it
-- was moved, under this key perhaps earlier.
local base, key = KEYS[1], KEYS[1] .. 'c:' .. ARGV[2]
if redis.call('HGET', key, 'move') == ARGV[1] then
    return 1
end
local status = redis.call('HGET', key, 'status')
for i = 4, #ARGV do
    if status == ARGV[i] then
        local count = redis.call('HGET', key, 'count')
        redis.call('HSET', key, 'status', ARGV[3], 'move', ARGV[1],
            ARGV[3], string.format('%.0f', now_ms() * 1000))
        redis.call('HINCRBY', base .. 'totals', status, -1)
        redis.call('HINCRBY', base .. 'totals', status .. ':items', 0 - count)
        redis.call('HINCRBY', base .. 'totals', ARGV[3], 1)
        redis.call('HINCRBY', base .. 'totals', ARGV[3] .. ':items', count)
        return 1
    end
end
return 0
