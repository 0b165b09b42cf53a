-- Writes records, each if its version is the one that was read; moves them in the indexes, and the counts with them.
--
-- Keys, all with one hash tag:
--   KEYS[1]           the beginning of all others
--   r:<id>            hash: b the record as JSON, v its version, c when it was made (microseconds), k the keys of its last
--                     change
--   all, s:, d:, ...  sorted sets of ids, named by the caller; scores are microseconds
--   counts            hash: how many records there are by [domain, failure type, status]
--   c:<id>            hash: a summary; sums and sums:<domain> are sorted sets of summaries; totals counts them
--   done:<key>        what this script has answered under this key, for as long as somebody may ask again
--
-- Arguments: the key of the call, "1" if all or nothing is to be written, what the caller takes for the time in
-- milliseconds ("" if the server has just told it), the number of records, then for each: id, version read, and behind a
-- space the keys of the change that made it if the caller has not just read it, new version, key of the change, JSON (""
-- deletes it), how many sets it leaves and their names, how many sets it joins and for each its name and score, how many
-- counts change and for each its name and by how much. Then the number of summaries, each with its ten fields.
--
-- Answers a "1" or "0" for each record, a space, and the time in milliseconds. Whose time is behind by more than NEAR is
-- refused; so is whose time is ahead at all, since what is due at once would not be due to whoever asks next.
local NEAR = 100
local base = KEYS[1]
local done = base .. 'done:' .. ARGV[1]
local known = redis.call('GET', done)
if known then
    return known
end
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
    local record = {id = take(), version = take(), new_version = take(), key = take(), body = take(),
                    leaves = {}, joins = {}, counts = {}}
    for j = 1, tonumber(take()) do record.leaves[j] = take() end
    for j = 1, tonumber(take()) do record.joins[j] = {take(), take()} end
    for j = 1, tonumber(take()) do record.counts[j] = {take(), take()} end
    local there = redis.call('HMGET', base .. 'r:' .. record.id, 'v', 'k')
    local version = there[1] or ''
    if string.find(record.version, ' ', 1, true) then version = version .. ' ' .. (there[2] or '') end
    record.fits = version == record.version
    fits_all = fits_all and record.fits
    records[i] = record
end

local answer = {}
for i, record in ipairs(records) do
    local fits = record.fits and (fits_all or ARGV[2] == '0')
    answer[i] = fits and '1' or '0'
    if fits then
        local key = base .. 'r:' .. record.id
        for _, name in ipairs(record.leaves) do redis.call('ZREM', base .. name, record.id) end
        for _, join in ipairs(record.joins) do
            redis.call('ZADD', base .. join[1], join[2], record.id)
        end
        for _, count in ipairs(record.counts) do
            if redis.call('HINCRBY', base .. 'counts', count[1], count[2]) == 0 then
                redis.call('HDEL', base .. 'counts', count[1])
            end
        end
        if record.body == '' then
            redis.call('DEL', key)
        else
            redis.call('HSET', key, 'b', record.body, 'v', record.new_version, 'k', record.key)
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

local said = table.concat(answer) .. ' ' .. string.format('%.0f', now)
redis.call('SET', done, said, 'PX', 120000)
return said
