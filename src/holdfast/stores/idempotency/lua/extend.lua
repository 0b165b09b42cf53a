-- KEYS: 1 the entry of a key, a hash; 2 when each key expires, a sorted set of milliseconds
-- ARGV: 1 the key, 2 token, 3 for how many milliseconds
local row = redis.call('HMGET', KEYS[1], 'status_code', 'owner_token')
if row[1] ~= '0' or row[2] ~= ARGV[2] then
    return 0
end
local expires = string.format('%.0f', now_ms() + ARGV[3])
redis.call('HSET', KEYS[1], 'expires_at', expires)
redis.call('ZADD', KEYS[2], expires, ARGV[1])
return 1
