-- Reads records. Arguments: ids. Answers the time in milliseconds, then of each record that is there its id, when it was
-- made, the key of its last change and its JSON, with spaces between them.
local answer = {string.format('%.0f', now_ms())}
for _, id in ipairs(ARGV) do
    local record = redis.call('HMGET', KEYS[1] .. 'r:' .. id, 'c', 'k', 'b')
    if record[1] and record[2] and record[3] then
        record[1] = string.match(record[1], '^%d+')
        answer[#answer + 1] = id .. ' ' .. table.concat(record, ' ')
    end
end
return answer
