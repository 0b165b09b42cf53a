-- Idempotency keys. A row whose status_code is 0 is a claim, of the worker that has its owner_token, until expires_at;
-- any other is a result. What has expired counts as not there. The response_data of a claim is its note, which whoever
-- takes it over for the same purpose inherits.

-- fragment: kept
k.idempotency_key, k.fingerprint, k.response_data, k.status_code, k.headers, k.created_at, k.expires_at, k.owner_token,
k.expires_at > {now_iso} AS is_live

-- fragment: inherited
CASE WHEN k.status_code = 0 AND k.fingerprint = excluded.fingerprint THEN k.response_data
    ELSE excluded.response_data END

-- name: key_get
SELECT {kept} FROM @holdfast_idempotency AS k WHERE k.idempotency_key = :idempotency_key;

-- name: keys_look
-- rows: idempotency_key text
SELECT {kept} FROM {rows} AS r JOIN @holdfast_idempotency AS k ON k.idempotency_key = r.idempotency_key;

-- name: keys_put
-- rows: idempotency_key text, fingerprint text, mark text, response_data text, status_code int, headers text
-- rows: later_ms bigint
INSERT INTO @holdfast_idempotency AS k (
    idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at, owner_token
)
SELECT
    r.idempotency_key, r.fingerprint, r.response_data, r.status_code, r.headers, {now_iso}, {row_later_iso}, r.mark
FROM {rows} AS r
WHERE true
ORDER BY r.idempotency_key
ON CONFLICT (idempotency_key) DO UPDATE
SET fingerprint = excluded.fingerprint, response_data = excluded.response_data, status_code = excluded.status_code,
    headers = excluded.headers, created_at = excluded.created_at, expires_at = excluded.expires_at,
    owner_token = excluded.owner_token
WHERE k.expires_at <= {now_iso};

-- name: keys_finish
-- rows: idempotency_key text, token text, mark text, response_data text, status_code int, headers text
-- rows: later_ms bigint
-- Without a token a claim that has expired, and so is nobody's, may be ended by anyone.
UPDATE @holdfast_idempotency AS k
SET response_data = r.response_data, status_code = r.status_code, headers = r.headers, expires_at = {row_later_iso},
    owner_token = r.mark
FROM {rows} AS r
WHERE k.idempotency_key = r.idempotency_key AND k.status_code = 0
  AND (k.owner_token = r.token OR (r.token IS NULL AND k.expires_at <= {now_iso}));

-- name: key_finish
-- One row of keys_finish that has a token, as nearly all come. On MariaDB/MySQL an update that joins takes twice as long.
UPDATE @holdfast_idempotency
SET response_data = :response_data, status_code = :status_code, headers = :headers, expires_at = {later_iso},
    owner_token = :mark
WHERE idempotency_key = :idempotency_key AND status_code = 0 AND owner_token = :token;

-- name: keys_extend
-- rows: idempotency_key text, token text, later_ms bigint
UPDATE @holdfast_idempotency AS k
SET expires_at = {row_later_iso}
FROM {rows} AS r
WHERE k.idempotency_key = r.idempotency_key AND k.status_code = 0 AND k.owner_token = r.token;

-- name: keys_expired_delete
-- A claim that has expired is left for a while: its owner may come back, or somebody take it over. The time is asked
-- for twice: on PostgreSQL a row may be claimed anew between the search and the lock.
DELETE FROM @holdfast_idempotency
WHERE idempotency_key IN (
    SELECT k.idempotency_key FROM @holdfast_idempotency AS k
    WHERE k.expires_at <= {now_iso} AND (k.status_code <> 0 OR k.expires_at <= {later_iso})
        [[ AND k.expires_at <= :before ]]
    ORDER BY k.expires_at LIMIT :most
) AND expires_at <= {now_iso};
