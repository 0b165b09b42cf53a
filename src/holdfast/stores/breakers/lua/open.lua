-- Read the open breakers, the one that has been open longest first.
--
-- KEYS[1] {prefix}:breakers        hash: name -> record
-- KEYS[2] {prefix}:breakers:open   sorted set: names of open breakers by the time of their opening
-- ARGV: how many at most, -1 for all
if ARGV[1] == '0' then return {} end
local last = ARGV[1] == '-1' and -1 or ARGV[1] - 1
local found = {}
for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, last)) do
    found[#found + 1] = redis.call('HGET', KEYS[1], name)
end
return found
