-- Store a checkpoint if the one of its id has the revision that is expected; 0 means that there is none. With a token
-- it takes over the claim of the checkpoint before it, which the token must hold.
-- KEYS: checkpoint, counter, the checkpoint before it (or the same as the first). ARGV: prefix, expected revision, id,
-- flow, run, whole run, status, parent, created_at, created_at in microseconds, updated_at, resume_at, resume_at in
-- microseconds, revision, data, key of this write, seconds to live once the run has ended (0: for ever), whether it has
-- ended, whether it waits, token (or ''), milliseconds of the claim.
-- Returns "stored", "missing", "stale" or "lost".
local prefix, expected = ARGV[1], tonumber(ARGV[2])
local id, flow, run, whole, status = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local ttl, ended, waits, token = tonumber(ARGV[17]), ARGV[18] == '1', ARGV[19] == '1', ARGV[20]
local expiring = prefix .. 'expiring'
local over = prefix .. 'flow:' .. flow .. ':ended:' .. whole  -- there as long as checkpoints of the run that has ended

local function indexes(of_flow, of_status, of_run, of_whole)
    return {prefix .. 'flow:' .. of_flow .. ':checkpoints', prefix .. 'flow:' .. of_flow .. ':status:' .. of_status,
            prefix .. 'run:' .. of_run, prefix .. 'run:' .. of_whole}
end

local function unlist(of_flow, of_status, of_run, of_whole, member)
    for _, index in ipairs(indexes(of_flow, of_status, of_run, of_whole)) do redis.call('ZREM', index, member) end
    redis.call('ZREM', prefix .. 'waiting', member)
    redis.call('ZREM', prefix .. 'due', member)
    redis.call('ZREM', expiring, table.concat({of_flow, of_status, of_run, of_whole, member}, '\n'))
end

-- Let a checkpoint go in time.
local function let_go(key, of_flow, of_status, of_run, of_whole, member)
    redis.call('EXPIRE', key, ttl)
    redis.call('ZADD', expiring, now_ms() + ttl * 1000, table.concat({of_flow, of_status, of_run, of_whole, member}, '\n'))
end

-- Let the whole run go in time, or stay: none that waits goes. A run of this id in another flow is another run.
local function set_life_of_run(goes)
    for _, member in ipairs(redis.call('ZRANGE', prefix .. 'run:' .. whole, 0, -1)) do
        local key = prefix .. 'checkpoint:' .. string.sub(member, 22)
        local card = redis.call('HMGET', key, 'flow_id', 'status', 'run_id', 'wf_run_id')
        local ours = card[1] == flow and card[4] == whole
        if ours and goes and card[2] ~= 'paused' and card[2] ~= 'pending_input' then
            let_go(key, card[1], card[2], card[3], card[4], member)
        elseif ours then
            redis.call('PERSIST', key)
            redis.call('ZREM', expiring, table.concat({card[1], card[2], card[3], card[4], member}, '\n'))
        end
    end
    if goes then redis.call('SET', over, '', 'EX', ttl) else redis.call('DEL', over) end
end

local there = redis.call('HMGET', KEYS[1], 'revision', 'flow_id', 'write_key', 'member', 'status', 'run_id', 'wf_run_id', 'score')
if there[3] == ARGV[16] then return 'stored' end
if token ~= '' then
    local held = redis.call('HMGET', KEYS[3], 'claim_token', 'claim_until')
    if held[1] ~= token or tonumber(held[2]) <= now_ms() then return 'lost' end
end
local member, score
if not there[1] then
    if expected ~= 0 then return 'missing' end
    member = string.format('%020d:', redis.call('INCR', KEYS[2])) .. id
    score = ARGV[10]
    redis.call('HSET', KEYS[1], 'created_at', ARGV[9], 'member', member, 'score', score)
else
    if tonumber(there[1]) ~= expected or there[2] ~= flow then return 'stale' end
    member, score = there[4], there[8]
    unlist(flow, there[5], there[6], there[7], member)
end
redis.call('HSET', KEYS[1], 'id', id, 'flow_id', flow, 'run_id', run, 'wf_run_id', whole, 'status', status,
    'parent_id', ARGV[8], 'updated_at', ARGV[11], 'resume_at', ARGV[12], 'revision', ARGV[14], 'data', ARGV[15],
    'write_key', ARGV[16])
if token ~= '' then
    redis.call('HDEL', KEYS[3], 'claim_token', 'claim_until')
    redis.call('HSET', KEYS[1], 'claim_token', token, 'claim_until', string.format('%.0f', now_ms() + tonumber(ARGV[21])))
end
for _, index in ipairs(indexes(flow, status, run, whole)) do redis.call('ZADD', index, score, member) end
if waits then
    redis.call('ZADD', prefix .. 'waiting', score, member)
    if ARGV[13] ~= '' then redis.call('ZADD', prefix .. 'due', ARGV[13], member) end
end
local goes_already = redis.call('EXISTS', over) == 1
if ended and ttl > 0 and goes_already then
    let_go(KEYS[1], flow, status, run, whole, member)
    redis.call('SET', over, '', 'EX', ttl)
elseif ended and ttl > 0 then
    set_life_of_run(true)
elseif goes_already or redis.call('PTTL', KEYS[1]) >= 0 then
    set_life_of_run(false)
end

-- What has expired takes its names with it: a few at each write, so that none stays for long.
for _, name in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', now_ms(), 'LIMIT', 0, 20)) do
    local of_flow, of_status, of_run, of_whole, gone = string.match(name, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
    if redis.call('EXISTS', prefix .. 'checkpoint:' .. string.sub(gone, 22)) == 0 then
        unlist(of_flow, of_status, of_run, of_whole, gone)
    end
end
return 'stored'
