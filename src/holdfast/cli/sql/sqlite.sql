-- name: doctor_settings
-- What belongs to the file; the rest is of the connection that asks.
PRAGMA journal_mode;

-- name: doctor_synchronous
-- only: sqlite
PRAGMA synchronous;
