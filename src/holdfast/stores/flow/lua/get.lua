-- A checkpoint. KEYS: checkpoint. ARGV: the names of its fields. Returns their values.
return redis.call('HMGET', KEYS[1], unpack(ARGV))
