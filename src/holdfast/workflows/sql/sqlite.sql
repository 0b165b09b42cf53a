-- One writer is lock enough here.

-- fragment: share_runs

-- fragment: hold_runs

-- fragment: skip_locked_runs
