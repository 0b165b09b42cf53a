-- A table to write to in tests, the demo and benchmarks: what was handed to the pipeline, by its key.

-- name: ledger_create
CREATE TABLE IF NOT EXISTS @holdfast_ledger (
    entry_key TEXT NOT NULL PRIMARY KEY,
    note TEXT NOT NULL,
    amount BIGINT NOT NULL CHECK (amount >= 0)
);

-- name: ledger_insert
-- rows: entry_key text, note text, amount bigint
-- A row whose key is there already is left out.
INSERT INTO @holdfast_ledger (entry_key, note, amount)
SELECT r.entry_key, r.note, r.amount FROM {rows} AS r WHERE true
ON CONFLICT (entry_key) DO NOTHING;

-- name: ledger_find
-- rows: entry_key text, note text, amount bigint
SELECT l.entry_key, l.note FROM @holdfast_ledger AS l JOIN {rows} AS r ON r.entry_key = l.entry_key;

-- name: ledger_all
SELECT entry_key, note, amount FROM @holdfast_ledger ORDER BY entry_key;
