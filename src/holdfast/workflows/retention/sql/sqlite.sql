-- SQLite tells by a subquery whether an array has a value.

-- fragment: wanted_status
w.status IN (SELECT value FROM json_each(:statuses))

-- fragment: wanted_name
w.name IN (SELECT value FROM json_each(:names))
