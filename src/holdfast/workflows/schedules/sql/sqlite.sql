-- One writer is lock enough here.

-- fragment: is_not_left_out
instr(:left_out, '|' || s.schedule_id || '@' || s.version || '|') = 0

-- fragment: hold

-- fragment: hold_free
