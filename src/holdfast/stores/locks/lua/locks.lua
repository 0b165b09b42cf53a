-- Locks, each verb whole or not at all.
--
--   KEYS[1]   the hash of one lock: owner ('' for nobody), token, claim_key, acquired_at_ms, expires_at_ms. It is never
--             deleted and never expires: the token of a key only grows.
--   ARGV[1]   the verb; the rest are its arguments
local lock = KEYS[1]
local now = now_ms()
local fields = redis.call('HMGET', lock, 'owner', 'token', 'claim_key', 'expires_at_ms')
local owner, token, claim_key = fields[1] or '', tonumber(fields[2] or '0'), fields[3] or ''
local expires = tonumber(fields[4] or '0')

local verbs = {}

-- owner, claim key, ttl_ms. Returns {1, token, expires} or {0, milliseconds left}.
function verbs.acquire()
  if claim_key == ARGV[3] and owner ~= '' then return {1, token, expires} end
  if owner ~= '' and expires > now then return {0, expires - now} end
  expires = now + tonumber(ARGV[4])
  redis.call('HSET', lock, 'owner', ARGV[2], 'token', token + 1, 'claim_key', ARGV[3], 'acquired_at_ms', now,
    'expires_at_ms', expires)
  return {1, token + 1, expires}
end

-- owner, token, key of this call.
function verbs.release()
  if owner == '' and claim_key == ARGV[4] then return 1 end
  if owner == '' or owner ~= ARGV[2] or token ~= tonumber(ARGV[3]) then return 0 end
  redis.call('HSET', lock, 'owner', '', 'claim_key', ARGV[4])
  return 1
end

-- owner, token, ttl_ms.
function verbs.extend()
  if owner == '' or owner ~= ARGV[2] or token ~= tonumber(ARGV[3]) or expires <= now then return 0 end
  redis.call('HSET', lock, 'expires_at_ms', now + tonumber(ARGV[4]))
  return 1
end

function verbs.get()
  if owner == '' or expires <= now then return false end
  return {owner, token, expires}
end

return verbs[ARGV[1]]()
