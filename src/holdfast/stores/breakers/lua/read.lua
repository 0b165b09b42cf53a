-- Read breakers and the time.
--
-- KEYS[1] {prefix}:breakers   hash: name -> record
-- ARGV: names
local found = {now_ms()}
for at = 1, #ARGV do found[at + 1] = redis.call('HGET', KEYS[1], ARGV[at]) or '' end
return found
