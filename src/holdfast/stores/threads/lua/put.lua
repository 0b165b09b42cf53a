-- Store a checkpoint and the large values that are new in it; the same again changes nothing.
-- KEYS: checkpoint, index of its namespace, of its thread, of all threads; values of the thread, last changes of threads, number
-- of the last change of all.
-- ARGV: prefix, name of the checkpoint, thread, parent, run, format, data, metadata, names of its large values (a line
-- each), the key of the checkpoint it is a change on top of, or nothing, then a name and a value for each new one. A
-- value never changes. Returns 0, or what is gone, and then nothing is stored: 1 a value that is not new, 2 the other checkpoint.
local new = {}
for at = 11, #ARGV, 2 do new[ARGV[at]] = true end
for field in string.gmatch(ARGV[9], '[^\n]+') do
    if not new[field] and redis.call('HEXISTS', KEYS[5], field) == 0 then return 1 end
end
if ARGV[10] ~= '' and redis.call('EXISTS', ARGV[10]) == 0 then return 2 end
local before = redis.call('HGET', KEYS[1], 'run')
if before and before ~= '' and before ~= ARGV[5] then
    redis.call('SREM', ARGV[1] .. 'run:' .. before, ARGV[2])
end
redis.call('HSET', KEYS[1], 'parent', ARGV[4], 'run', ARGV[5], 'format', ARGV[6], 'data', ARGV[7],
    'metadata', ARGV[8], 'large', ARGV[9])
for at = 2, 4 do redis.call('ZADD', KEYS[at], 0, ARGV[2]) end
if ARGV[5] ~= '' then redis.call('SADD', ARGV[1] .. 'run:' .. ARGV[5], ARGV[2]) end
for at = 11, #ARGV, 2 do redis.call('HSETNX', KEYS[5], ARGV[at], ARGV[at + 1]) end
redis.call('HSET', KEYS[6], ARGV[3], redis.call('INCR', KEYS[7]))
return 0
