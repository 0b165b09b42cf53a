-- Hold a checkpoint, go on holding it, or let it go. KEYS: checkpoint. ARGV: verb, token, milliseconds.
-- Returns 1 if the token holds it now (or held it until now), else 0.
local there = redis.call('HMGET', KEYS[1], 'status', 'claim_token', 'claim_until')
if not there[1] then return 0 end
local now = now_ms()
local held = there[2] and tonumber(there[3]) > now
if ARGV[1] == 'claim' then
    if held then return there[2] == ARGV[2] and 1 or 0 end
    if there[1] == 'completed' or there[1] == 'canceled' then return 0 end
    redis.call('HINCRBY', KEYS[1], 'revision', 1)
elseif not held or there[2] ~= ARGV[2] then
    return 0
end
if ARGV[1] == 'release' then
    redis.call('HDEL', KEYS[1], 'claim_token', 'claim_until')
else
    redis.call('HSET', KEYS[1], 'claim_token', ARGV[2], 'claim_until', string.format('%.0f', now + tonumber(ARGV[3])))
end
return 1
