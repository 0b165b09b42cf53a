-- KEYS: 1 the entry of a key, a hash; 2 when Redis lets each entry go, a sorted set of milliseconds
-- ARGV: 1 the key
-- Returns the entry, or nothing if there is none or it has expired.
local row = redis.call('HMGET', KEYS[1],
    'fingerprint', 'response_data', 'status_code', 'headers', 'created_at', 'expires_at', 'owner_token')
if not row[6] or tonumber(row[6]) <= now_ms() then
    return false
end
return row
