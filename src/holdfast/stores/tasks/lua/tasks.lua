-- Everything that changes a task, each verb whole or not at all: no task is ever between two lists.
--
--   KEYS[1]             a prefix with its hash tag, which all keys share
--   :task:ID            hash: what is known of a task, under the names of the SQL table's columns; '' for NULL
--   :ids                sorted set, all scores 0: the ids, for listings
--   :queues             set: the names of the queues
--   :QUEUE:ready        sorted set by priority; members are the sequence, of one width, and the id: so the oldest first
--   :QUEUE:delayed      sorted set by the time from which a pending task may be taken
--   :QUEUE:leased       sorted set by the end of the lease
--   :QUEUE:completed    sorted set by the time of the end
--   :QUEUE:dead_lettered
--   :QUEUE:owed         sorted set by the time at which a dead letter that is still to be made is tried again
--   :claim:ID           the ids that a claim has taken, for a caller whose reply was lost; expires
--
--   ARGV[1]             the verb; the rest are its arguments
local base = KEYS[1]
local now = now_ms()
local CLAIM_KEPT_MS = 120000 -- twice as long as a call is tried again

local function key_of(id) return base .. ':task:' .. id end
local function list_of(queue, name) return base .. ':q:' .. queue .. ':' .. name end
local function ready_member(sequence, id) return string.format('%016.0f', tonumber(sequence)) .. id end

local function read(id)
  local flat = redis.call('HGETALL', key_of(id))
  if #flat == 0 then return nil end
  local task = {task_id = id}
  for at = 1, #flat, 2 do task[flat[at]] = flat[at + 1] end
  return task
end

local function place_of(task)
  if task.status == 'processing' then return 'leased', task.task_id end
  if task.status == 'pending' and task.due_at_ms ~= '' then return 'delayed', task.task_id end
  if task.status == 'pending' then return 'ready', ready_member(task.sequence, task.task_id) end
  return task.status, task.task_id
end

-- The task that stands in a list under a name. A name whose task is gone, as after an eviction, or stands elsewhere, as one
-- that was put again after that, is taken from the list.
local function listed(queue, list, member, id)
  local task = read(id)
  if task and task.queue_name == queue then
    local place, name = place_of(task)
    if place == list and name == member then return task end
  end
  redis.call('ZREM', list_of(queue, list), member)
  if not task then redis.call('ZREM', base .. ':ids', id) end
  return nil
end

-- Write the fields that change and move the task from the list where it stood to the one where it belongs.
local function change(task, fields)
  local list, member = place_of(task)
  redis.call('ZREM', list_of(task.queue_name, list), member)
  local flat = {'updated_at', now}
  task.updated_at = now
  for name, value in pairs(fields) do
    task[name] = value
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  redis.call('HSET', key_of(task.task_id), unpack(flat))
  list, member = place_of(task)
  local score = now
  if list == 'ready' then score = task.priority elseif list == 'delayed' or list == 'leased' then score = task.due_at_ms end
  redis.call('ZADD', list_of(task.queue_name, list), score, member)
end

local function flat_of(task)
  local flat = {}
  for name, value in pairs(task) do
    flat[#flat + 1] = name
    flat[#flat + 1] = tostring(value)
  end
  return flat
end

-- owed_ms: '' where nobody wants dead letters.
local function die(task, said, owed_ms, dead)
  change(task, {status = 'dead_lettered', due_at_ms = '', worker_id = '', error = said})
  if owed_ms ~= '' then
    redis.call('ZADD', list_of(task.queue_name, 'owed'), now + tonumber(owed_ms), task.task_id)
    dead[#dead + 1] = flat_of(task)
  end
end

-- What is due in a queue gets its turn; returns how many leases it looked at, and how many were over.
local function sweep(queue, most, lost, owed_ms, dead, with_delayed)
  if with_delayed then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', list_of(queue, 'delayed'), '-inf', now, 'LIMIT', 0, most)) do
      local task = listed(queue, 'delayed', id, id)
      if task then change(task, {due_at_ms = ''}) end
    end
  end
  local count = 0
  local over = redis.call('ZRANGEBYSCORE', list_of(queue, 'leased'), '-inf', now, 'LIMIT', 0, most)
  for _, id in ipairs(over) do
    local task = listed(queue, 'leased', id, id)
    if task then count = count + 1 end
    if task and tonumber(task.attempts) >= tonumber(task.max_attempts) then
      die(task, lost, owed_ms, dead)
    elseif task then
      change(task, {status = 'pending', due_at_ms = '', worker_id = '', error = lost})
    end
  end
  if owed_ms ~= '' then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', list_of(queue, 'owed'), '-inf', now, 'LIMIT', 0, most)) do
      local task = read(id)
      if task then
        redis.call('ZADD', list_of(queue, 'owed'), now + tonumber(owed_ms), id)
        dead[#dead + 1] = flat_of(task)
      else
        redis.call('ZREM', list_of(queue, 'owed'), id)
      end
    end
  end
  return #over, count
end

local verbs = {}

-- (id, queue, payload, max_attempts, visibility_timeout, priority, delay_ms, creation_key) for each task.
-- Returns the id that is taken, or ''.
function verbs.put(argv)
  for at = 1, #argv, 8 do
    local key = redis.call('HGET', key_of(argv[at]), 'creation_key')
    if key and key ~= argv[at + 7] then return argv[at] end
  end
  for at = 1, #argv, 8 do
    local id, queue, delay_ms = argv[at], argv[at + 1], argv[at + 6]
    if redis.call('EXISTS', key_of(id)) == 0 then
      local due = ''
      if delay_ms ~= '' then due = string.format('%.0f', now + tonumber(delay_ms)) end
      local sequence = redis.call('INCR', base .. ':sequence')
      redis.call('HSET', key_of(id), 'queue_name', queue, 'payload', argv[at + 2], 'status', 'pending',
        'created_at', now, 'updated_at', now, 'attempts', 0, 'max_attempts', argv[at + 3],
        'visibility_timeout', argv[at + 4], 'worker_id', '', 'error', '', 'priority', argv[at + 5],
        'due_at_ms', due, 'token', '', 'creation_key', argv[at + 7], 'sequence', sequence)
      redis.call('ZADD', base .. ':ids', 0, id)
      redis.call('SADD', base .. ':queues', queue)
      if due == '' then
        redis.call('ZADD', list_of(queue, 'ready'), argv[at + 5], ready_member(sequence, id))
      else
        redis.call('ZADD', list_of(queue, 'delayed'), due, id)
      end
    end
  end
  return ''
end

-- queue, worker, how many, claim, most_due, lost, owed_ms. Returns the tasks taken, and those whose letters are owed.
function verbs.take(argv)
  local queue, worker, n, claim = argv[1], argv[2], tonumber(argv[3]), argv[4]
  local taken, dead = {}, {}
  local earlier = redis.call('LRANGE', base .. ':claim:' .. claim, 0, -1)
  if #earlier > 0 then
    for _, id in ipairs(earlier) do
      local task = read(id)
      if task and task.status == 'processing' and string.sub(task.token, 1, #claim) == claim then
        taken[#taken + 1] = flat_of(task)
      end
    end
    return {taken, dead}
  end
  sweep(queue, tonumber(argv[5]), argv[6], argv[7], dead, true)
  while #taken < n do
    local member = redis.call('ZRANGE', list_of(queue, 'ready'), 0, 0)[1]
    if not member then break end
    local task = listed(queue, 'ready', member, string.sub(member, 17))
    if task then
      local token = claim
      if n > 1 then token = claim .. '.' .. #taken end
      local due = string.format('%.0f', now + tonumber(task.visibility_timeout) * 1000)
      change(task, {status = 'processing', attempts = task.attempts + 1, token = token, worker_id = worker, due_at_ms = due})
      taken[#taken + 1] = flat_of(task)
      redis.call('RPUSH', base .. ':claim:' .. claim, task.task_id)
    end
  end
  if #taken > 0 then redis.call('PEXPIRE', base .. ':claim:' .. claim, CLAIM_KEPT_MS) end
  return {taken, dead}
end

-- id, held ('' for none), key.
function verbs.complete(argv)
  local task, held, key = read(argv[1]), argv[2], argv[3]
  if not task then return 0 end
  if task.status == 'completed' and task.token == key then return 1 end
  local is_mine = task.status == 'processing' and task.token == held and held ~= ''
  local is_free = task.status == 'pending' and (held == '' or task.token == held)
  if not (is_mine or is_free) then return 0 end
  change(task, {status = 'completed', token = key, worker_id = '', due_at_ms = ''})
  return 1
end

-- id, held, key, what is said ('-' and nothing for nothing, else '+' and it), retry_ms, draw, uncount, base, cap, owed_ms.
function verbs.fail(argv)
  local task, held, key, dead = read(argv[1]), argv[2], argv[3], {}
  if not task then return {0, dead} end
  local is_mine = task.status == 'processing' and task.token == held and held ~= ''
  local is_free = task.status == 'pending' and held == '' and task.token ~= key
  if not (is_mine or is_free) then
    local is_done = task.token == key and (task.status == 'pending' or task.status == 'dead_lettered')
    return {is_done and 1 or 0, dead}
  end
  local attempts, uncount = tonumber(task.attempts), tonumber(argv[7])
  local said = task.error
  if string.sub(argv[4], 1, 1) == '+' then said = string.sub(argv[4], 2) end
  task.token = key
  redis.call('HSET', key_of(task.task_id), 'token', key)
  if uncount == 0 and attempts >= tonumber(task.max_attempts) then
    die(task, said, argv[10], dead)
    return {1, dead}
  end
  local wait = math.min(tonumber(argv[9]), tonumber(argv[8]) * 2 ^ math.min(math.max(attempts - 1, 0), 20))
  wait = math.floor(wait * (500 + math.floor(tonumber(argv[6]) / 2)) / 1000)
  if argv[5] ~= '' then wait = tonumber(argv[5]) end
  local due = ''
  if wait > 0 then due = string.format('%.0f', now + wait) end
  if is_mine then attempts = attempts - uncount end
  change(task, {status = 'pending', due_at_ms = due, attempts = attempts, error = said, worker_id = ''})
  return {due == '' and 2 or 1, dead, task.queue_name}
end

-- id, held, for_ms.
function verbs.extend(argv)
  local task = read(argv[1])
  if not task or task.status ~= 'processing' or task.token ~= argv[2] then return 0 end
  change(task, {due_at_ms = string.format('%.0f', now + tonumber(argv[3]))})
  return 1
end

-- queue, most, lost, owed_ms. Returns how many leases it looked at, how many were over, and whose letters are owed.
function verbs.stale(argv)
  local dead = {}
  local looked, over = sweep(argv[1], tonumber(argv[2]), argv[3], argv[4], dead, false)
  return {looked, over, dead}
end

-- queue, id: the dead letter is made.
function verbs.letter_made(argv)
  return redis.call('ZREM', list_of(argv[1], 'owed'), argv[2])
end

-- queue, status, older_ms, most. Returns how many it looked at, and how many it deleted.
function verbs.purge(argv)
  local queue, gone = argv[1], 0
  local ended = redis.call('ZRANGEBYSCORE', list_of(queue, argv[2]), '-inf', now - tonumber(argv[3]), 'LIMIT', 0,
    tonumber(argv[4]))
  for _, id in ipairs(ended) do
    if not redis.call('ZSCORE', list_of(queue, 'owed'), id) then
      redis.call('ZREM', list_of(queue, argv[2]), id)
      redis.call('ZREM', base .. ':ids', id)
      gone = gone + redis.call('DEL', key_of(id))
    end
  end
  return {#ended, gone}
end

-- after which id ('' for the first), queue ('' for all), status ('' for all), how many, of how many that are looked at.
-- Returns the last id it looked at if there may be more, and the tasks in the order of their ids.
function verbs.list(argv)
  local begin, most, found, last = '-', tonumber(argv[4]), {}, ''
  if argv[1] ~= '' then begin = '(' .. argv[1] end
  local ids = redis.call('ZRANGEBYLEX', base .. ':ids', begin, '+', 'LIMIT', 0, argv[5])
  if #ids == tonumber(argv[5]) then last = ids[#ids] end
  for _, id in ipairs(ids) do
    if #found == most then break end
    local has = redis.call('HMGET', key_of(id), 'queue_name', 'status')
    if has[1] and (argv[2] == '' or has[1] == argv[2]) and (argv[3] == '' or has[2] == argv[3]) then
      found[#found + 1] = flat_of(read(id))
    end
  end
  return {last, found}
end

local argv = {}
for at = 2, #ARGV do argv[at - 1] = ARGV[at] end
return verbs[ARGV[1]](argv)
