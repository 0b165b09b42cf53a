-- Counts what an index has between two scores. Arguments: the index, the two scores, and statuses, as for page.lua.
local SPAN = 2 ^ 48
local now = now_ms()

local function score(text)
    local age = string.match(text, '^age:(%-?%d+)$')
    if age then return '(' .. string.format('%.0f', now * 1000 - tonumber(age)) end
    return text
end

local function place(status, made) return string.format('%.0f', status * SPAN + made) end

if #ARGV == 3 then
    return redis.call('ZCOUNT', KEYS[1] .. ARGV[1], score(ARGV[2]), score(ARGV[3]))
end
local number = 0
for i = 4, #ARGV do
    number = number + redis.call('ZCOUNT', KEYS[1] .. ARGV[1], place(ARGV[i], ARGV[2]), place(ARGV[i], ARGV[3]))
end
return number
