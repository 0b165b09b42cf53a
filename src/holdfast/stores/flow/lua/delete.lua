-- Remove checkpoints and every name they are found by; one with a revision in ARGV only if it still has it and nobody
-- holds it.
-- KEYS: checkpoints, and a name that no key has. ARGV: prefix, then a revision for each checkpoint, or ''. Returns how
-- many were removed.
local prefix, gone = ARGV[1], 0
for place = 1, #ARGV - 1 do
    local key = KEYS[place]
    local there = redis.call('HMGET', key, 'flow_id', 'status', 'run_id', 'wf_run_id', 'member', 'revision', 'claim_until')
    local wanted = ARGV[place + 1]
    local free = not there[7] or tonumber(there[7]) <= now_ms()
    if there[1] and (wanted == '' or (wanted == there[6] and free)) then
        local flow, status, run, whole, member = there[1], there[2], there[3], there[4], there[5]
        for _, index in ipairs({'flow:' .. flow .. ':checkpoints', 'flow:' .. flow .. ':status:' .. status,
                                'run:' .. run, 'run:' .. whole, 'waiting', 'due'}) do
            redis.call('ZREM', prefix .. index, member)
        end
        redis.call('ZREM', prefix .. 'expiring', table.concat({flow, status, run, whole, member}, '\n'))
        redis.call('DEL', key)
        gone = gone + 1
    end
end
return gone
