-- KEYS: 1 the entry of a key, a hash; 2 when Redis lets each entry go, a sorted set of milliseconds
-- ARGV: 1 the key, 2 fingerprint, 3 token, 4 for how many milliseconds, 5 note, 6 for how many more a claim is left
-- Makes a claim unless there is a living entry of somebody else's; returns what is there then. The same again does no
-- harm.
local now = now_ms()
local row = redis.call('HMGET', KEYS[1],
    'fingerprint', 'response_data', 'status_code', 'headers', 'created_at', 'expires_at', 'owner_token')
local is_live = row[6] and tonumber(row[6]) > now
if is_live and not (row[3] == '0' and row[7] == ARGV[3]) then
    return row
end
local note = ARGV[5]
if row[3] == '0' and row[1] == ARGV[2] then
    note = row[2] -- who takes a claim over for the same purpose inherits its note
end
local expires = string.format('%.0f', now + ARGV[4])
redis.call('HSET', KEYS[1],
    'fingerprint', ARGV[2], 'response_data', note, 'status_code', '0', 'headers', '{}',
    'created_at', string.format('%.0f', now), 'expires_at', expires, 'owner_token', ARGV[3])
local goes = string.format('%.0f', now + ARGV[4] + ARGV[6])
redis.call('PEXPIREAT', KEYS[1], goes)
redis.call('ZADD', KEYS[2], goes, ARGV[1])
if redis.call('ZCARD', KEYS[2]) % 256 == 0 then -- now and then: the names of entries that Redis has let go by itself
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
end
return redis.call('HMGET', KEYS[1],
    'fingerprint', 'response_data', 'status_code', 'headers', 'created_at', 'expires_at', 'owner_token')
