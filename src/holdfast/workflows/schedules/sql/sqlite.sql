-- One writer is lock enough here.

-- fragment: hold

-- fragment: hold_free
