-- Read the open breakers, the one that has been open longest first. A name without a record is removed on the way.
--
-- KEYS[1] {prefix}:breakers        hash: name -> record
-- KEYS[2] {prefix}:breakers:open   sorted set: names of open breakers by the time of their opening
-- ARGV: how many at most, -1 for all
local found, most = {}, tonumber(ARGV[1])
while #found ~= most do
    local name = redis.call('ZRANGE', KEYS[2], #found, #found)[1]
    if not name then break end
    local record = redis.call('HGET', KEYS[1], name)
    if record then
        found[#found + 1] = record
    else
        redis.call('ZREM', KEYS[2], name)
    end
end
return found
