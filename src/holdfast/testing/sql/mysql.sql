-- name: ledger_create
CREATE TABLE IF NOT EXISTS @holdfast_ledger (
    entry_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    note LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
    amount BIGINT NOT NULL CHECK (amount >= 0)
) ENGINE = InnoDB;

-- name: ledger_insert
INSERT INTO @holdfast_ledger (entry_key, note, amount)
SELECT r.entry_key, r.note, r.amount
FROM {rows} AS r LEFT JOIN @holdfast_ledger AS l ON l.entry_key = r.entry_key
WHERE l.entry_key IS NULL;
