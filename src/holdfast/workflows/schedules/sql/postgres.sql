-- What is held while a schedule is changed or fired.

-- fragment: is_not_left_out
strpos(CAST(:left_out AS text), '|' || s.schedule_id || '@' || s.version || '|') = 0

-- fragment: hold
FOR UPDATE OF s

-- fragment: hold_free
FOR UPDATE OF s SKIP LOCKED
