-- Put a breaker back, unless somebody has written it meanwhile, or this very change was made before.
--
-- KEYS[1] {prefix}:breakers            hash: name -> record
-- KEYS[2] {prefix}:breakers:open       sorted set: names of open breakers by the time of their opening
-- KEYS[3] {prefix}:breakers:history:N  list: the last changes of this breaker, newest first
-- KEYS[4] {prefix}:breakers:receipt:K  string: what was answered, for as long as somebody may ask again
-- ARGV: name, record that was read ('' for none), record to write ('' for none), time of opening ('' if it is not open),
--       answers, seconds to keep them, entries of the history to keep, channel, new entries ...
-- Returns 1; or 2 and the answers, if it was made before; or 0, the record there is, and the time.
local made = redis.call('GET', KEYS[4])
if made then return {2, made} end
local there = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if there ~= ARGV[2] then return {0, there, now_ms()} end
if ARGV[3] == '' then
    redis.call('HDEL', KEYS[1], ARGV[1])
    redis.call('DEL', KEYS[3])
elseif ARGV[3] ~= ARGV[2] then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
if ARGV[4] == '' then
    redis.call('ZREM', KEYS[2], ARGV[1])
else
    redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
end
if #ARGV > 8 then
    for at = 9, #ARGV do redis.call('LPUSH', KEYS[3], ARGV[at]) end
    redis.call('LTRIM', KEYS[3], 0, ARGV[7] - 1)
end
redis.call('SET', KEYS[4], ARGV[5], 'EX', ARGV[6])
redis.pcall('PUBLISH', ARGV[8], ARGV[1]) -- a user may have no right to the channel: the others find out by their poll
return {1}
