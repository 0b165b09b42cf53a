-- Delete checkpoints with their writes, and values, if the threads have not changed since they were looked at.
-- KEYS: last changes of threads. ARGV: prefix, number of threads, a thread and its last change for each, number of
-- checkpoints, their names, then a thread and a name for each value. Returns 1, or 0 if a thread has changed: look again.
local at = 3
for _ = 1, tonumber(ARGV[2]) do
    if (redis.call('HGET', KEYS[1], ARGV[at]) or '0') ~= ARGV[at + 1] then return 0 end
    at = at + 2
end
local last = at + tonumber(ARGV[at])
for place = at + 1, last do
    local name = ARGV[place]
    local id, thread, ns = string.match(name, '^(.*)%z(%Z*)%z(%Z*)$')
    local key = thread .. ':' .. ns .. ':' .. id
    local run = redis.call('HGET', ARGV[1] .. 'checkpoint:' .. key, 'run')
    if run and run ~= '' then redis.call('SREM', ARGV[1] .. 'run:' .. run, name) end
    redis.call('UNLINK', ARGV[1] .. 'checkpoint:' .. key, ARGV[1] .. 'writes:' .. key)
    redis.call('SREM', ARGV[1] .. 'written:' .. thread, name)
    redis.call('ZREM', ARGV[1] .. 'ns:' .. thread .. ':' .. ns, name)
    redis.call('ZREM', ARGV[1] .. 'thread:' .. thread, name)
    redis.call('ZREM', ARGV[1] .. 'all', name)
end
for place = last + 1, #ARGV, 2 do
    redis.call('HDEL', ARGV[1] .. 'values:' .. ARGV[place], ARGV[place + 1])
end
for place = 3, at - 1, 2 do
    if redis.call('EXISTS', ARGV[1] .. 'thread:' .. ARGV[place]) == 0 then redis.call('HDEL', KEYS[1], ARGV[place]) end
end
return 1
