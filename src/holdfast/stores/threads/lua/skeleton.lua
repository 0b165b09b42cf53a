-- What must be known of threads to decide what may go. KEYS: last changes of threads.
-- ARGV: prefix, number of threads, the threads, then runs whose threads are wanted too.
-- Returns for each thread {thread, its last change, {name, parent, metadata, large, run, ...}}.
local threads, seen = {}, {}
local function want(thread)
    if not seen[thread] then
        seen[thread] = true
        threads[#threads + 1] = thread
    end
end
local given = tonumber(ARGV[2])
for at = 3, #ARGV do
    if at < 3 + given then
        want(ARGV[at])
    else
        for _, name in ipairs(redis.call('SMEMBERS', ARGV[1] .. 'run:' .. ARGV[at])) do
            want(string.match(name, '%z(%Z*)%z%Z*$'))
        end
    end
end
local answer = {}
for _, thread in ipairs(threads) do
    local bones = {}
    for _, name in ipairs(redis.call('ZRANGE', ARGV[1] .. 'thread:' .. thread, 0, -1)) do
        local id, ns = string.match(name, '^(.*)%z%Z*%z(%Z*)$')
        local key = ARGV[1] .. 'checkpoint:' .. thread .. ':' .. ns .. ':' .. id
        local bone = redis.call('HMGET', key, 'parent', 'metadata', 'large', 'run')
        table.insert(bone, 1, name)
        bones[#bones + 1] = bone
    end
    answer[#answer + 1] = {thread, redis.call('HGET', KEYS[1], thread) or '0', bones}
end
return answer
