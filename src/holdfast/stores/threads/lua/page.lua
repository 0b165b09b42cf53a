-- Checkpoints of an index, newest first, with everything that belongs to them.
-- KEYS: index. ARGV: prefix, highest name, lowest name (as ZREVRANGEBYLEX wants them), how many.
-- Returns the checkpoints {name, parent, format, data, metadata, large, {writes}} and the values {name, value, ...} that
-- they have, each once. Of a checkpoint that is listed and gone only the name is known.
local found, values, seen = {}, {}, {}
for _, name in ipairs(redis.call('ZREVRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])) do
    local id, thread, ns = string.match(name, '^(.*)%z(%Z*)%z(%Z*)$')
    local place = thread .. ':' .. ns .. ':' .. id
    local card = redis.call('HMGET', ARGV[1] .. 'checkpoint:' .. place, 'parent', 'format', 'data', 'metadata', 'large')
    table.insert(card, 1, name)
    card[7] = redis.call('HVALS', ARGV[1] .. 'writes:' .. place)
    found[#found + 1] = card
    for field in string.gmatch(card[6] or '', '[^\n]+') do
        if not seen[thread .. ' ' .. field] then
            seen[thread .. ' ' .. field] = true
            values[#values + 1] = thread .. ' ' .. field
            values[#values + 1] = redis.call('HGET', ARGV[1] .. 'values:' .. thread, field)
        end
    end
end
return {found, values}
