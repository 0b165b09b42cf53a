-- Counts what an index has between two scores, which are written as for page.lua. Arguments: the index, the two scores.
local now = now_ms()

local function score(text)
    local age = string.match(text, '^age:(%-?%d+)$')
    if age then return '(' .. string.format('%.0f', now * 1000 - tonumber(age)) end
    return text
end

return redis.call('ZCOUNT', KEYS[1] .. ARGV[1], score(ARGV[2]), score(ARGV[3]))
