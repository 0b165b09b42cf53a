-- Checkpoints of an index, newest first. A name whose checkpoint has expired is removed on the way.
-- KEYS: index. ARGV: prefix, highest score (or '+inf'), how many (-1: all), status (or ''), whether with data,
-- whether in the order of the index from its beginning (due ones), flow (or '').
-- Returns for each: id, flow, run, whole run, status, parent, created_at, updated_at, resume_at, revision, member, data.
local fields = {'id', 'flow_id', 'run_id', 'wf_run_id', 'status', 'parent_id', 'created_at', 'updated_at', 'resume_at',
                'revision', 'member'}
if ARGV[5] == '1' then fields[#fields + 1] = 'data' end
local most, found, at, page = tonumber(ARGV[3]), {}, 0, 100
while most < 0 or #found < most do
    local members
    if ARGV[6] == '1' then
        members = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2], 'LIMIT', at, page)
    else
        members = redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[2], '-inf', 'LIMIT', at, page)
    end
    if #members == 0 then break end
    at = at + #members
    for _, member in ipairs(members) do
        local card = redis.call('HMGET', ARGV[1] .. 'checkpoint:' .. string.sub(member, 22), unpack(fields))
        if not card[1] then
            redis.call('ZREM', KEYS[1], member)
            at = at - 1
        elseif (ARGV[4] == '' or card[5] == ARGV[4]) and (ARGV[7] == '' or card[2] == ARGV[7])
            and (most < 0 or #found < most) then
            found[#found + 1] = card
        end
    end
end
return found
