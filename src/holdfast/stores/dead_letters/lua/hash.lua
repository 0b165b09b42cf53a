-- Reads a whole hash. Argument: its name behind KEYS[1].
return redis.call('HGETALL', KEYS[1] .. ARGV[1])
