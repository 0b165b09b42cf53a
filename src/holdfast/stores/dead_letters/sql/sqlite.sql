-- SQLite has one writer: a transaction that writes needs no lock of a row.

-- fragment: whole_number
INTEGER

-- fragment: planned

-- fragment: locked

-- fragment: skip_locked
