-- Reads records. Arguments: ids. Answers the time in milliseconds, then id, JSON, time of making and keys of the last
-- change of each record that is there.
local answer = {string.format('%.0f', now_ms())}
for _, id in ipairs(ARGV) do
    local record = redis.call('HMGET', KEYS[1] .. 'r:' .. id, 'b', 'c', 'k')
    if record[1] then
        answer[#answer + 1] = id
        for i = 1, 3 do answer[#answer + 1] = record[i] end
    end
end
return answer
