-- Store a checkpoint if the one of its id has the revision that is expected; 0 means that there is none.
-- KEYS: checkpoint, counter. ARGV: prefix, expected revision, id, flow, run, whole run, status, parent, created_at,
-- created_at in microseconds, updated_at, resume_at, resume_at in microseconds, revision, data, key of this write,
-- seconds to live once ended (0: for ever), whether it has ended, whether it waits.
-- Returns "stored", "missing" or "stale".
local prefix, expected = ARGV[1], tonumber(ARGV[2])
local id, flow, run, whole, status = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local there = redis.call('HMGET', KEYS[1], 'revision', 'flow_id', 'write_key', 'member', 'status', 'run_id', 'wf_run_id', 'score')
local member, score
if not there[1] then
    if expected ~= 0 then return 'missing' end
    member = string.format('%020d:', redis.call('INCR', KEYS[2])) .. id
    score = ARGV[10]
    redis.call('HSET', KEYS[1], 'created_at', ARGV[9], 'member', member, 'score', score)
else
    if there[3] == ARGV[16] then return 'stored' end
    if tonumber(there[1]) ~= expected or there[2] ~= flow then return 'stale' end
    member, score = there[4], there[8]
    redis.call('ZREM', prefix .. 'flow:' .. flow .. ':status:' .. there[5], member)
    redis.call('ZREM', prefix .. 'run:' .. there[6], member)
    redis.call('ZREM', prefix .. 'run:' .. there[7], member)
end
redis.call('HSET', KEYS[1], 'id', id, 'flow_id', flow, 'run_id', run, 'wf_run_id', whole, 'status', status,
    'parent_id', ARGV[8], 'updated_at', ARGV[11], 'resume_at', ARGV[12], 'revision', ARGV[14], 'data', ARGV[15],
    'write_key', ARGV[16])
redis.call('ZADD', prefix .. 'flow:' .. flow .. ':checkpoints', score, member)
redis.call('ZADD', prefix .. 'flow:' .. flow .. ':status:' .. status, score, member)
redis.call('ZADD', prefix .. 'run:' .. run, score, member)
redis.call('ZADD', prefix .. 'run:' .. whole, score, member)
redis.call(ARGV[19] == '1' and 'ZADD' or 'ZREM', prefix .. 'waiting', unpack(ARGV[19] == '1' and {score, member} or {member}))
redis.call('ZREM', prefix .. 'due', member)
if ARGV[19] == '1' and ARGV[13] ~= '' then redis.call('ZADD', prefix .. 'due', ARGV[13], member) end
if ARGV[18] == '1' and ARGV[17] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[17]) else redis.call('PERSIST', KEYS[1]) end
return 'stored'
