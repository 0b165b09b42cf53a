-- KEYS: 1 the entry of a key, a hash; 2 when Redis lets each entry go, a sorted set of milliseconds
-- ARGV: 1 the key, 2 token or nothing
-- Removes the claim that the token has, or, without one, a claim that has expired.
local row = redis.call('HMGET', KEYS[1], 'status_code', 'owner_token', 'expires_at')
if row[1] ~= '0' then
    return 0
end
if ARGV[2] == '' and tonumber(row[3]) > now_ms() or ARGV[2] ~= '' and row[2] ~= ARGV[2] then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
