-- Read all breakers.
--
-- KEYS[1] {prefix}:breakers   hash: name -> record
return redis.call('HVALS', KEYS[1])
