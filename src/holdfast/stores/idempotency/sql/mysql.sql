-- MariaDB/MySQL writes first and then reads what came of it, in the same transaction. The keys of a batch come in
-- their order, so that two batches do not wait for each other.

-- name: keys_claim
-- rows: idempotency_key text, fingerprint text, token text, later_ms bigint, note text
-- Assignments are made from left to right and see what came before: the columns that decide come last, and each leaves
-- the decision as it was.
INSERT INTO @holdfast_idempotency (
    idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at, owner_token
)
SELECT r.idempotency_key, r.fingerprint, r.note, 0, '{}', {now_iso}, {row_later_iso}, r.token
FROM {rows} AS r
ORDER BY r.idempotency_key
ON DUPLICATE KEY UPDATE
    response_data = IF(({is_free}) AND NOT ({is_inherited}), VALUES(response_data), @holdfast_idempotency.response_data),
    fingerprint = IF({is_free}, VALUES(fingerprint), @holdfast_idempotency.fingerprint),
    headers = IF({is_free}, '{}', @holdfast_idempotency.headers),
    created_at = IF({is_free}, VALUES(created_at), @holdfast_idempotency.created_at),
    status_code = IF({is_free}, 0, @holdfast_idempotency.status_code),
    owner_token = IF({is_free}, VALUES(owner_token), @holdfast_idempotency.owner_token),
    expires_at = IF({is_free}, VALUES(expires_at), @holdfast_idempotency.expires_at);
SELECT {kept} FROM {rows} AS r STRAIGHT_JOIN @holdfast_idempotency AS k FORCE INDEX (PRIMARY)
    ON k.idempotency_key = r.idempotency_key;

-- fragment: is_free
@holdfast_idempotency.expires_at <= {now_iso}
OR (@holdfast_idempotency.status_code = 0 AND @holdfast_idempotency.owner_token = VALUES(owner_token))

-- fragment: is_inherited
@holdfast_idempotency.status_code = 0 AND @holdfast_idempotency.fingerprint = VALUES(fingerprint)

-- name: keys_look
SELECT {kept} FROM {rows} AS r STRAIGHT_JOIN @holdfast_idempotency AS k FORCE INDEX (PRIMARY)
    ON k.idempotency_key = r.idempotency_key;

-- name: keys_put
-- What decides is expires_at alone, which comes last.
INSERT INTO @holdfast_idempotency (
    idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at, owner_token
)
SELECT
    r.idempotency_key, r.fingerprint, r.response_data, r.status_code, r.headers, {now_iso}, {row_later_iso}, r.mark
FROM {rows} AS r
ORDER BY r.idempotency_key
ON DUPLICATE KEY UPDATE
    fingerprint = IF({is_over}, VALUES(fingerprint), @holdfast_idempotency.fingerprint),
    response_data = IF({is_over}, VALUES(response_data), @holdfast_idempotency.response_data),
    status_code = IF({is_over}, VALUES(status_code), @holdfast_idempotency.status_code),
    headers = IF({is_over}, VALUES(headers), @holdfast_idempotency.headers),
    created_at = IF({is_over}, VALUES(created_at), @holdfast_idempotency.created_at),
    owner_token = IF({is_over}, VALUES(owner_token), @holdfast_idempotency.owner_token),
    expires_at = IF({is_over}, VALUES(expires_at), @holdfast_idempotency.expires_at);
SELECT k.idempotency_key FROM {rows} AS r STRAIGHT_JOIN @holdfast_idempotency AS k FORCE INDEX (PRIMARY)
    ON k.idempotency_key = r.idempotency_key AND k.owner_token = r.mark;

-- fragment: is_over
@holdfast_idempotency.expires_at <= {now_iso}

-- name: keys_finish
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_idempotency AS k FORCE INDEX (PRIMARY)
    ON k.idempotency_key = r.idempotency_key
SET k.response_data = r.response_data, k.headers = r.headers, k.expires_at = {row_later_iso},
    k.status_code = r.status_code, k.owner_token = r.mark
WHERE k.status_code = 0 AND (k.owner_token = r.token OR (r.token IS NULL AND k.expires_at <= {now_iso}));

-- name: keys_extend
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_idempotency AS k FORCE INDEX (PRIMARY)
    ON k.idempotency_key = r.idempotency_key AND k.owner_token = r.token
SET k.expires_at = {row_later_iso}
WHERE k.status_code = 0;

-- name: keys_release
-- rows: idempotency_key text, token text
-- MySQL returns no rows of what it deletes: they are locked and read first.
SELECT k.idempotency_key, k.owner_token
FROM {rows} AS r STRAIGHT_JOIN @holdfast_idempotency AS k FORCE INDEX (PRIMARY)
    ON k.idempotency_key = r.idempotency_key
WHERE k.status_code = 0 AND (k.owner_token = r.token OR (r.token IS NULL AND k.expires_at <= {now_iso}))
FOR UPDATE;
DELETE k FROM {rows} AS r STRAIGHT_JOIN @holdfast_idempotency AS k FORCE INDEX (PRIMARY)
    ON k.idempotency_key = r.idempotency_key
WHERE k.status_code = 0 AND (k.owner_token = r.token OR (r.token IS NULL AND k.expires_at <= {now_iso}));

-- name: keys_expired_delete
DELETE FROM @holdfast_idempotency
WHERE expires_at <= {now_iso} AND (status_code <> 0 OR expires_at <= {later_iso}) [[ AND expires_at <= :before ]]
ORDER BY expires_at LIMIT :most;
