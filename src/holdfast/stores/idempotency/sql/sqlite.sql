-- name: keys_claim
-- rows: idempotency_key text, fingerprint text, token text, later_ms bigint, note text
-- Answers with the claims that were made; whoever is left out looks who has the key.
INSERT INTO @holdfast_idempotency AS k (
    idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at, owner_token
)
SELECT r.idempotency_key, r.fingerprint, r.note, 0, '{}', {now_iso}, {row_later_iso}, r.token
FROM {rows} AS r
WHERE true
ON CONFLICT (idempotency_key) DO UPDATE
SET fingerprint = excluded.fingerprint, response_data = {inherited}, status_code = 0, headers = '{}',
    created_at = excluded.created_at, expires_at = excluded.expires_at, owner_token = excluded.owner_token
WHERE k.expires_at <= {now_iso} OR (k.status_code = 0 AND k.owner_token = excluded.owner_token)
RETURNING
    idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at, owner_token,
    1 AS is_live;

-- name: keys_release
-- rows: idempotency_key text, token text
DELETE FROM @holdfast_idempotency
WHERE rowid IN (
    SELECT k.rowid FROM {rows} AS r JOIN @holdfast_idempotency AS k ON k.idempotency_key = r.idempotency_key
    WHERE k.status_code = 0 AND (k.owner_token = r.token OR (r.token IS NULL AND k.expires_at <= {now_iso}))
)
RETURNING idempotency_key, owner_token;
