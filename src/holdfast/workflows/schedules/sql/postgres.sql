-- What is held while a schedule is changed or fired.

-- fragment: hold
FOR UPDATE OF s

-- fragment: hold_free
FOR UPDATE OF s SKIP LOCKED
