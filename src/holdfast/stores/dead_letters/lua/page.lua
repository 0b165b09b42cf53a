-- Reads some records in the order of an index. KEYS[1] is the beginning of all keys. Arguments: the index, "1" for the
-- highest score first, the lowest and the highest score, how many to pass over, how many at most. A score "age:N" is that
-- many microseconds before now, and not that moment itself; "now" is now. Answers as read.lua does.
local now = now_ms()

local function score(text)
    if text == 'now' then return string.format('%.0f', now * 1000) end
    local age = string.match(text, '^age:(%-?%d+)$')
    if age then return '(' .. string.format('%.0f', now * 1000 - tonumber(age)) end
    return text
end

local low, high = score(ARGV[3]), score(ARGV[4])
local ids
if ARGV[2] == '1' then
    ids = redis.call('ZREVRANGEBYSCORE', KEYS[1] .. ARGV[1], high, low, 'LIMIT', ARGV[5], ARGV[6])
else
    ids = redis.call('ZRANGEBYSCORE', KEYS[1] .. ARGV[1], low, high, 'LIMIT', ARGV[5], ARGV[6])
end
local answer = {string.format('%.0f', now)}
for _, id in ipairs(ids) do
    local record = redis.call('HMGET', KEYS[1] .. 'r:' .. id, 'b', 'c', 'k')
    answer[#answer + 1] = id
    for i = 1, 3 do answer[#answer + 1] = record[i] end
end
return answer
