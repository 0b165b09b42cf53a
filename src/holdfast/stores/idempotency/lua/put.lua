-- KEYS: 1 the entry of a key, a hash; 2 when Redis lets each entry go, a sorted set of milliseconds
-- ARGV: 1 the key, 2 fingerprint, 3 mark, 4 data, 5 status code, 6 headers, 7 for how many milliseconds
-- Keeps a result unless there is a living entry; returns 1 if it is this one then.
local now = now_ms()
local row = redis.call('HMGET', KEYS[1], 'expires_at', 'owner_token')
if row[1] and tonumber(row[1]) > now then
    return row[2] == ARGV[3] and 1 or 0
end
local expires = string.format('%.0f', now + ARGV[7])
redis.call('HSET', KEYS[1],
    'fingerprint', ARGV[2], 'response_data', ARGV[4], 'status_code', ARGV[5], 'headers', ARGV[6],
    'created_at', string.format('%.0f', now), 'expires_at', expires, 'owner_token', ARGV[3])
redis.call('PEXPIREAT', KEYS[1], expires)
redis.call('ZADD', KEYS[2], expires, ARGV[1])
if redis.call('ZCARD', KEYS[2]) % 256 == 0 then -- now and then: the names of entries that Redis has let go by itself
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
end
return 1
