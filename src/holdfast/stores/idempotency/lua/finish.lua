-- KEYS: 1 the entry of a key, a hash; 2 when Redis lets each entry go, a sorted set of milliseconds
-- ARGV: 1 the key, 2 token or nothing, 3 mark, 4 data, 5 status code, 6 headers, 7 for how many milliseconds
-- Makes a result of the claim that the token has, or, without one, of a claim that has expired. Returns 1 if this very
-- result is there then.
local now = now_ms()
local row = redis.call('HMGET', KEYS[1], 'status_code', 'owner_token', 'expires_at', 'response_data', 'headers')
if not row[1] then
    return 0
end
if row[1] ~= '0' then
    return (row[2] == ARGV[3] and row[1] == ARGV[5] and row[4] == ARGV[4] and row[5] == ARGV[6]) and 1 or 0
end
if ARGV[2] == '' and tonumber(row[3]) > now or ARGV[2] ~= '' and row[2] ~= ARGV[2] then
    return 0
end
local expires = string.format('%.0f', now + ARGV[7])
redis.call('HSET', KEYS[1],
    'response_data', ARGV[4], 'status_code', ARGV[5], 'headers', ARGV[6], 'expires_at', expires, 'owner_token', ARGV[3])
redis.call('PEXPIREAT', KEYS[1], expires)
redis.call('ZADD', KEYS[2], expires, ARGV[1])
return 1
