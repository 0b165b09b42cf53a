-- Writes records, each if its last change is the one that it stands on; moves them in the indexes, and the counts with them.
--
-- Keys, all with one hash tag:
--   KEYS[1]           the beginning of all others
--   r:<id>            hash: b the record as JSON, c when it was made (microseconds), k the key of its last change
--   all, d:<domain>, t:<failure type>, dt:<kind>
--                     sorted sets of ids in the order of making, of each status apart: a place, which is the score, is the
--                     number of the status times 2^48, and the milliseconds of the making. A kind is domain and failure
--                     type, behind the length of the domain
--   due, expires, resolved:<status>, archived, beat
--                     sorted sets of ids by a time, named by the caller; scores are microseconds
--   counts            hash: how many records there are by status and kind
--   c:<id>            hash: a summary; sums and sums:<domain> are sorted sets of summaries; totals counts them
--   done:<key>        what this script has answered under this key, for as long as somebody may ask again
--
-- Arguments: the key of the call, "1" if all or nothing is to be written, what the caller takes for the time in
-- milliseconds ("" if the server has just told it), the number of records, then for each: id, key of the change that it
-- stands on, JSON ("" deletes it), domain, failure type, status before and after, place (only looked at where the status
-- changes), how many sets by a time it leaves and their names, how many it joins and for each its name and score. Then the
-- number of summaries, each with its ten fields.
--
-- Answers a "1" or "0" for each record, a space, and the time in milliseconds. Whose time is behind by more than NEAR is
-- refused; so is whose time is ahead at all, since what is due at once would not be due to whoever asks next.
local NEAR = 100
local base = KEYS[1]
local now = now_ms()
local at = 3

local function take()
    at = at + 1
    return ARGV[at]
end

local records = {}
local behind = ARGV[3] == '' and 0 or now - ARGV[3]
local fits_all = behind >= 0 and behind <= NEAR
for i = 1, tonumber(take()) do
    local record = {id = take(), stands_on = take(), body = take(), domain = take(), failure_type = take(),
                    before = take(), after = take(), place = take(), leaves = {}, joins = {}}
    for j = 1, tonumber(take()) do record.leaves[j] = take() end
    for j = 1, tonumber(take()) do record.joins[j] = {take(), take()} end
    record.fits = redis.call('HGET', base .. 'r:' .. record.id, 'k') == record.stands_on
    fits_all = fits_all and record.fits
    records[i] = record
end

local done = base .. 'done:' .. ARGV[1]
if not fits_all then -- otherwise this call has changed nothing yet
    local known = redis.call('GET', done)
    if known then return known end
end

local function count(status, kind, by)
    local name = status .. ':' .. kind
    if redis.call('HINCRBY', base .. 'counts', name, by) == 0 then redis.call('HDEL', base .. 'counts', name) end
end

local function move(record)
    local kind = #record.domain .. ':' .. record.domain .. ':' .. record.failure_type
    local names = {'all', 'd:' .. record.domain, 't:' .. record.failure_type, 'dt:' .. kind}
    count(record.before, kind, -1)
    if record.body == '' then
        for _, name in ipairs(names) do redis.call('ZREM', base .. name, record.id) end
    else
        for _, name in ipairs(names) do redis.call('ZADD', base .. name, record.place, record.id) end
        count(record.after, kind, 1)
    end
end

local answer = {}
for i, record in ipairs(records) do
    local fits = record.fits and (fits_all or ARGV[2] == '0')
    answer[i] = fits and '1' or '0'
    if fits then
        if record.before ~= record.after or record.body == '' then move(record) end
        for _, name in ipairs(record.leaves) do redis.call('ZREM', base .. name, record.id) end
        for _, join in ipairs(record.joins) do redis.call('ZADD', base .. join[1], join[2], record.id) end
        if record.body == '' then
            redis.call('DEL', base .. 'r:' .. record.id)
        else
            redis.call('HSET', base .. 'r:' .. record.id, 'b', record.body, 'k', ARGV[1])
        end
    end
end

if fits_all or ARGV[2] == '0' then
    for i = 1, tonumber(take()) do
        local id, domain, failure_type, error_code = take(), take(), take(), take()
        local count, first, last, message, context, compressed = take(), take(), take(), take(), take(), take()
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

local written = table.concat(answer)
local said = written .. ' ' .. string.format('%.0f', now)
if string.find(written, '1', 1, true) then redis.call('SET', done, said, 'PX', 120000) end
return said
