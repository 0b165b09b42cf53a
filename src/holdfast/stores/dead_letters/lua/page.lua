-- Reads some records in the order of an index. KEYS[1] is the beginning of all keys. Arguments: the index, "1" for the
-- highest first, the lowest and the highest score, how many to pass over, how many at most; then, if it is an index by the
-- time of making, the numbers of the statuses that are wanted, and the two scores are milliseconds. In another one a score
-- "age:N" is that many microseconds before now, and not that moment itself; "now" is now.
--
-- Answers as read.lua does; of a record that is not there the id alone.
local SPAN = 2 ^ 48 -- milliseconds of each status; write.lua says how a place is made
local now, index, newest = now_ms(), KEYS[1] .. ARGV[1], ARGV[2] == '1'

local function score(text)
    if text == 'now' then return string.format('%.0f', now * 1000) end
    local age = string.match(text, '^age:(%-?%d+)$')
    if age then return '(' .. string.format('%.0f', now * 1000 - tonumber(age)) end
    return text
end

local function place(status, made) return string.format('%.0f', status * SPAN + made) end

local function range(low, high, ...)
    if newest then return redis.call('ZREVRANGEBYSCORE', index, high, low, ...) end
    return redis.call('ZRANGEBYSCORE', index, low, high, ...)
end

local function made_between(low, high)
    local number = 0
    for i = 7, #ARGV do number = number + redis.call('ZCOUNT', index, place(ARGV[i], low), place(ARGV[i], high)) end
    return number
end

-- How many were made before a moment, or since, if the newest come first.
local function passed_at(moment)
    if newest then return made_between(moment + 1, tonumber(ARGV[4])) end
    return made_between(tonumber(ARGV[3]), moment - 1)
end

-- The last moment that no more than so many are before, and how many of its own are passed over, too.
local function beginning(passed)
    local near, far = tonumber(ARGV[3]), tonumber(ARGV[4])
    if newest then near, far = far, near end
    while passed > 0 and near ~= far do
        local middle = (near + far) / 2
        if near < far then middle = math.ceil(middle) else middle = math.floor(middle) end
        if passed_at(middle) <= passed then near = middle elseif near < far then far = middle - 1 else far = middle + 1 end
    end
    if passed > 0 then passed = passed - passed_at(near) end
    return near, passed
end

local function merged(passed, most)
    local low, high = ARGV[3], ARGV[4]
    local near, left = beginning(passed)
    if newest then high = near else low = near end
    local found = {}
    for i = 7, #ARGV do
        local some = range(place(ARGV[i], low), place(ARGV[i], high), 'WITHSCORES', 'LIMIT', 0, left + most)
        for j = 1, #some, 2 do found[#found + 1] = {some[j + 1] - ARGV[i] * SPAN, some[j]} end
    end
    table.sort(found, function(one, other)
        if newest then one, other = other, one end
        return one[1] < other[1] or (one[1] == other[1] and one[2] < other[2])
    end)
    local ids = {}
    for i = left + 1, math.min(left + most, #found) do ids[#ids + 1] = found[i][2] end
    return ids
end

local ids
if #ARGV == 6 then
    ids = range(score(ARGV[3]), score(ARGV[4]), 'LIMIT', ARGV[5], ARGV[6])
elseif #ARGV == 7 then
    ids = range(place(ARGV[7], ARGV[3]), place(ARGV[7], ARGV[4]), 'LIMIT', ARGV[5], ARGV[6])
else
    ids = merged(tonumber(ARGV[5]), tonumber(ARGV[6]))
end
local answer = {string.format('%.0f', now)}
for _, id in ipairs(ids) do
    local record = redis.call('HMGET', KEYS[1] .. 'r:' .. id, 'c', 'k', 'b')
    local there = record[1] and record[2] and record[3]
    if there then record[1] = string.match(record[1], '^%d+') end
    answer[#answer + 1] = there and id .. ' ' .. table.concat(record, ' ') or id
end
return answer
