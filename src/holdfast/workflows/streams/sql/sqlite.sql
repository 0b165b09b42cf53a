-- One writer is lock enough here.

-- fragment: share_runs

-- fragment: hold_runs
