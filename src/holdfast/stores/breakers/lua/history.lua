-- Read the last changes of a breaker, newest first.
--
-- KEYS[1] {prefix}:breakers:history:N   list
-- ARGV: how many at most
if ARGV[1] == '0' then return {} end
return redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)
