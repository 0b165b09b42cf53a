-- Writes records, each if its last change is the one that it stands on; moves them in the indexes, and the counts with them.
--
-- Keys, all with one hash tag:
--   KEYS[1]           the beginning of all others
--   r:<id>            hash: b the record as JSON, c when it was made (microseconds), a space and its kind, k the key of
--                     its last change, which is empty if it was made as most are and nobody has changed it since
--   all, d:<domain>, t:<failure type>, dt:<kind>
--                     sorted sets of ids in the order of making, of each status apart: a place, which is the score, is the
--                     number of the status times 2^48, and the milliseconds of the making. A kind is domain and failure
--                     type, behind the length of the domain
--   due, expires, resolved:<status>, archived, beat
--                     sorted sets of ids by a time, named by the caller; scores are microseconds
--   counts            hash: how many records there are by status and kind
--   c:<id>            hash: a summary; sums and sums:<domain> are sorted sets of summaries; totals counts them
--   done:<key>        what this script has answered under this key, for as long as somebody may ask again. A change of
--                     one record needs none while its key is still there: the next change leaves it
--
-- Arguments: the key of the call; "all" if all or nothing is to be written, else "each"; or for one record "known" if the
-- answer to its last change has arrived, "over" if the caller has not read it; what the caller takes for the time in milliseconds ("" if the server has just told it), the number
-- of records, then for each: id, key of the change that it stands on, JSON ("" deletes it; with "over" it is laid over
-- what is there), status before and after ("" if it is deleted), the number of that, names of the sets by a time that it
-- leaves, and name and score of those that it joins, with spaces between them. Then the number of summaries, each with its
-- ten fields.
--
-- Answers a "1" or "0" for each record, a space, and the time in milliseconds; with "over" then a space and the record as
-- it was, as read.lua has it, if it is there. Whose time is behind by more than NEAR is refused; so is whose time is ahead at all, since what
-- is due at once would not be due to whoever asks next.
local NEAR, SPAN = 100, 2 ^ 48
local base, over, each = KEYS[1], ARGV[2] == 'over', ARGV[2] == 'each'
local now = now_ms()
local time = string.format('%.0f', now)
local behind = ARGV[3] == '' and 0 or now - ARGV[3]
local fits_all = behind >= 0 and behind <= NEAR

-- Of each record: where its arguments begin, its key, what is there of it, and whether that is what it stands on.
local records, at = {}, 5
for i = 1, tonumber(ARGV[4]) do
    local key = base .. 'r:' .. ARGV[at]
    local there = over and redis.call('HMGET', key, 'k', 'c', 'b') or redis.call('HMGET', key, 'k', 'c')
    local fits = there[1] == ARGV[at + 1]
    records[i] = {at, key, there, fits}
    fits_all = fits_all and fits
    at = at + 8
end

local alone = ARGV[4] == '1' and ARGV[7] ~= '' and ARGV[at] == '0'

local function told(said)
    if not over then return said end
    local key, made, body = unpack(records[1][3])
    if not (key and made and body) then return said end
    return said .. ' ' .. ARGV[5] .. ' ' .. string.match(made, '^%d+') .. ' ' .. key .. ' ' .. body
end

local function keep(key, said, ...) redis.call('SET', base .. 'done:' .. key, said, 'PX', 120000, ...) end

if not fits_all then -- otherwise this call has changed nothing yet
    if alone and records[1][3][1] == ARGV[1] then return told('1 ' .. time) end
    local known = redis.call('GET', base .. 'done:' .. ARGV[1])
    if known then return told(known) end
end

local function count(status, kind, by)
    local name = status .. ':' .. kind
    if redis.call('HINCRBY', base .. 'counts', name, by) == 0 then redis.call('HDEL', base .. 'counts', name) end
end

local function move(id, before, after, number, there)
    local made, length, rest = string.match(there, '^(%d+) (%d+):(.*)$')
    local kind = length .. ':' .. rest
    local names = {'all', 'd:' .. string.sub(rest, 1, length), 't:' .. string.sub(rest, length + 2), 'dt:' .. kind}
    count(before, kind, -1)
    if after == '' then
        for i = 1, 4 do redis.call('ZREM', base .. names[i], id) end
    else
        local place = string.format('%.0f', number * SPAN + math.floor(made / 1000))
        for i = 1, 4 do redis.call('ZADD', base .. names[i], place, id) end
        count(after, kind, 1)
    end
end

local function write(first, key, there)
    local id, body, before, after = ARGV[first], ARGV[first + 2], ARGV[first + 3], ARGV[first + 4]
    if before ~= after then move(id, before, after, ARGV[first + 5], there[2]) end
    for name in string.gmatch(ARGV[first + 6], '%S+') do redis.call('ZREM', base .. name, id) end
    for name, score in string.gmatch(ARGV[first + 7], '(%S+) (%S+)') do redis.call('ZADD', base .. name, score, id) end
    if body ~= '' then
        if over then body = string.sub(there[3], 1, -2) .. ',' .. string.sub(body, 2) end
        redis.call('HSET', key, 'b', body, 'k', ARGV[1])
    end
end

-- First what frees memory: otherwise a server that is full would refuse what was written before it.
for i = 1, #records do
    local first, key, _, fits = unpack(records[i])
    fits = fits and (fits_all or each)
    records[i][4] = fits
    if fits and ARGV[first + 2] == '' then redis.call('DEL', key) end
end

local written, kept = '', {['']=true}
for i = 1, #records do
    local first, key, there, fits = unpack(records[i])
    written = written .. (fits and '1' or '0')
    if fits then
        local last = there[1]
        if ARGV[2] ~= 'known' and not kept[last] then
            kept[last] = true
            keep(last, '1 ' .. time, 'NX') -- of a change of several records the answer is there
        end
        write(first, key, there)
    end
end

if fits_all or each then
    for i = at + 1, at + 10 * ARGV[at], 10 do
        local id, domain, failure_type, error_code, count, first, last, message, context, compressed =
            unpack(ARGV, i, i + 9)
        local key = base .. 'c:' .. id
        if redis.call('EXISTS', key) == 0 then
            redis.call('HSET', key, 'domain', domain, 'failure_type', failure_type, 'error_code', error_code,
                'count', 0, 'first', first, 'last', last, 'message', message, 'context', context,
                'status', 'active', 'compressed', compressed, 'stale', '', 'archived', '')
            redis.call('ZADD', base .. 'sums', compressed, id)
            redis.call('ZADD', base .. 'sums:' .. domain, compressed, id)
            redis.call('HINCRBY', base .. 'totals', 'active', 1)
        end
        local there = redis.call('HMGET', key, 'first', 'last', 'status')
        if tonumber(first) < tonumber(there[1]) then redis.call('HSET', key, 'first', first) end
        if tonumber(last) > tonumber(there[2]) then
            redis.call('HSET', key, 'last', last, 'message', message, 'context', context)
        end
        redis.call('HINCRBY', key, 'count', count)
        redis.call('HINCRBY', base .. 'totals', there[3] .. ':items', count)
    end
end

local said = written .. ' ' .. time
if not alone and string.find(written, '1', 1, true) then keep(ARGV[1], said) end
return told(said)
