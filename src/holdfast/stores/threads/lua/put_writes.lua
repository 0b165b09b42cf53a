-- Store what a task has written on top of a checkpoint. What is there stays; what has a negative place is replaced.
-- KEYS: writes of the checkpoint, names of the checkpoints of the thread that have writes.
-- ARGV: name of the checkpoint, then for each its field, its place and its data.
for at = 2, #ARGV, 3 do
    local verb = tonumber(ARGV[at + 1]) < 0 and 'HSET' or 'HSETNX'
    redis.call(verb, KEYS[1], ARGV[at], ARGV[at + 2])
end
redis.call('SADD', KEYS[2], ARGV[1])
return 1
