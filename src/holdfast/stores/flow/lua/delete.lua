-- Remove checkpoints and every name they are found by; one with a revision in ARGV only if it still has it.
-- KEYS: checkpoints. ARGV: prefix, then a revision for each, or ''. Returns how many were removed.
local gone = 0
for place, key in ipairs(KEYS) do
    local there = redis.call('HMGET', key, 'flow_id', 'member', 'status', 'run_id', 'wf_run_id', 'revision')
    local wanted = ARGV[place + 1]
    if there[1] and (wanted == '' or wanted == there[6]) then
        for _, index in ipairs({'flow:' .. there[1] .. ':checkpoints', 'flow:' .. there[1] .. ':status:' .. there[3],
                                'run:' .. there[4], 'run:' .. there[5], 'waiting', 'due'}) do
            redis.call('ZREM', ARGV[1] .. index, there[2])
        end
        redis.call('DEL', key)
        gone = gone + 1
    end
end
return gone
