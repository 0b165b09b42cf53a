-- KEYS: 1 when Redis lets each entry go, a sorted set of milliseconds; 2 what the names of all entries begin with
-- ARGV: 1 until when, or nothing for now; 2 how many at most; 3 for how many milliseconds a claim is left
-- Removes what has expired by then; returns how many that were. All names share one hash tag, and so one server. A claim
-- that has expired is left for a while: its owner may come back, or somebody take it over.
local now = now_ms()
local until_ms = now
if ARGV[1] ~= '' and tonumber(ARGV[1]) < until_ms then
    until_ms = tonumber(ARGV[1])
end
local most, removed, passed = tonumber(ARGV[2]), 0, 0
local last = string.format('%.0f', math.min(now, until_ms + ARGV[3]))
while removed < most do
    local some = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', last, 'WITHSCORES', 'LIMIT', passed, most - removed)
    if #some == 0 then
        break
    end
    for i = 1, #some, 2 do
        local is_claim = redis.call('HGET', KEYS[2] .. some[i], 'status_code') == '0'
        if not is_claim and tonumber(some[i + 1]) > until_ms then
            passed = passed + 1
        else
            redis.call('DEL', KEYS[2] .. some[i])
            redis.call('ZREM', KEYS[1], some[i])
            removed = removed + 1
        end
    end
end
return removed
