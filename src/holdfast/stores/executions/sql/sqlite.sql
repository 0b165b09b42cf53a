-- fragment: position
-- Every index of SQLite ends with the rowid anyway.
rowid
