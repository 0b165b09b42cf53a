-- Copy everything of a thread; what the target has already stays as it is.
-- KEYS: last changes of threads, number of the last change of all. ARGV: prefix, source, target. Returns nothing, or the
-- name of a checkpoint that is listed and gone, and then nothing is copied.
local prefix, source, target = ARGV[1], ARGV[2], ARGV[3]
local function fill(from, to)
    local fields = redis.call('HGETALL', from)
    for at = 1, #fields, 2 do redis.call('HSETNX', to, fields[at], fields[at + 1]) end
end
local function moved(name)
    local id, ns = string.match(name, '^(.*)%z%Z*%z(%Z*)$')
    return ns .. ':' .. id, id .. '\0' .. target .. '\0' .. ns, ns
end
local names = redis.call('ZRANGE', prefix .. 'thread:' .. source, 0, -1)
for _, name in ipairs(names) do
    if redis.call('EXISTS', prefix .. 'checkpoint:' .. source .. ':' .. moved(name)) == 0 then return name end
end
fill(prefix .. 'values:' .. source, prefix .. 'values:' .. target)
for _, name in ipairs(redis.call('SMEMBERS', prefix .. 'written:' .. source)) do
    local place, copy = moved(name)
    fill(prefix .. 'writes:' .. source .. ':' .. place, prefix .. 'writes:' .. target .. ':' .. place)
    redis.call('SADD', prefix .. 'written:' .. target, copy)
end
for _, name in ipairs(names) do
    local place, copy, ns = moved(name)
    local key = prefix .. 'checkpoint:' .. target .. ':' .. place
    if redis.call('EXISTS', key) == 0 then
        fill(prefix .. 'checkpoint:' .. source .. ':' .. place, key)
        for _, index in ipairs({'all', 'thread:' .. target, 'ns:' .. target .. ':' .. ns}) do
            redis.call('ZADD', prefix .. index, 0, copy)
        end
        local run = redis.call('HGET', key, 'run')
        if run ~= '' then redis.call('SADD', prefix .. 'run:' .. run, copy) end
    end
end
if redis.call('EXISTS', prefix .. 'thread:' .. target) == 1 then
    redis.call('HSET', KEYS[1], target, redis.call('INCR', KEYS[2]))
end
return ''
