-- Store a checkpoint and the large values that are new in it; the same again changes nothing.
-- KEYS: checkpoint, index of its namespace, of its thread, of all threads; values of the thread, last changes of threads, number
-- of the last change of all.
-- ARGV: prefix, name of the checkpoint, thread, parent, run, format, data, metadata, names of its large values (a line
-- each), then a name and a value for each new one. A value never changes.
local before = redis.call('HGET', KEYS[1], 'run')
if before and before ~= '' and before ~= ARGV[5] then
    redis.call('SREM', ARGV[1] .. 'run:' .. before, ARGV[2])
end
redis.call('HSET', KEYS[1], 'parent', ARGV[4], 'run', ARGV[5], 'format', ARGV[6], 'data', ARGV[7],
    'metadata', ARGV[8], 'large', ARGV[9])
for at = 2, 4 do redis.call('ZADD', KEYS[at], 0, ARGV[2]) end
if ARGV[5] ~= '' then redis.call('SADD', ARGV[1] .. 'run:' .. ARGV[5], ARGV[2]) end
for at = 10, #ARGV, 2 do redis.call('HSETNX', KEYS[5], ARGV[at], ARGV[at + 1]) end
redis.call('HSET', KEYS[6], ARGV[3], redis.call('INCR', KEYS[7]))
return 1
