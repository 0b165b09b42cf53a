-- One writer is lock enough here.

-- fragment: hold_runs

-- fragment: hold_free_runs
