-- KEYS: 1 the entry of a key, a hash; 2 when Redis lets each entry go, a sorted set of milliseconds
-- ARGV: 1 the key, 2 token, 3 for how many milliseconds, 4 for how many more a claim is left
local row = redis.call('HMGET', KEYS[1], 'status_code', 'owner_token')
if row[1] ~= '0' or row[2] ~= ARGV[2] then
    return 0
end
local now = now_ms()
local expires = string.format('%.0f', now + ARGV[3])
redis.call('HSET', KEYS[1], 'expires_at', expires)
local goes = string.format('%.0f', now + ARGV[3] + ARGV[4])
redis.call('PEXPIREAT', KEYS[1], goes)
redis.call('ZADD', KEYS[2], goes, ARGV[1])
return 1
