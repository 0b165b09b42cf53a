-- Delete everything of a thread. KEYS: last changes of threads. ARGV: prefix, thread.
local prefix, thread = ARGV[1], ARGV[2]
for _, name in ipairs(redis.call('ZRANGE', prefix .. 'thread:' .. thread, 0, -1)) do
    local id, ns = string.match(name, '^(.*)%z%Z*%z(%Z*)$')
    local key = prefix .. 'checkpoint:' .. thread .. ':' .. ns .. ':' .. id
    local run = redis.call('HGET', key, 'run')
    if run and run ~= '' then redis.call('SREM', prefix .. 'run:' .. run, name) end
    redis.call('UNLINK', key, prefix .. 'ns:' .. thread .. ':' .. ns)
    redis.call('ZREM', prefix .. 'all', name)
end
for _, name in ipairs(redis.call('SMEMBERS', prefix .. 'written:' .. thread)) do
    local id, ns = string.match(name, '^(.*)%z%Z*%z(%Z*)$')
    redis.call('UNLINK', prefix .. 'writes:' .. thread .. ':' .. ns .. ':' .. id)
end
redis.call('UNLINK', prefix .. 'thread:' .. thread, prefix .. 'values:' .. thread, prefix .. 'written:' .. thread)
redis.call('HDEL', KEYS[1], thread)
return 1
