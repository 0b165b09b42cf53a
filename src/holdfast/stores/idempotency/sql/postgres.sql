-- fragment: claim
-- Answers with the claims that were made, and beside them with the owners of the other keys when the statement began. A
-- row with neither was overtaken, and is looked at again. A key that was taken by then is not even tried: a conflict
-- would lock its row, and every replay would be a write.
WITH made AS (
    INSERT INTO @holdfast_idempotency AS k (
        idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at, owner_token
    )
    SELECT r.idempotency_key, r.fingerprint, r.note, 0, '{}', {now_iso}, {row_later_iso}, r.token
    FROM {rows} AS r
    WHERE NOT EXISTS (
        SELECT 1 FROM @holdfast_idempotency AS o
        WHERE o.idempotency_key = r.idempotency_key AND o.expires_at > {now_iso}
          AND NOT (o.status_code = 0 AND o.owner_token = r.token)
    )
    ORDER BY r.idempotency_key
    ON CONFLICT (idempotency_key) DO UPDATE
    SET fingerprint = excluded.fingerprint, response_data = {inherited}, status_code = 0, headers = '{}',
        created_at = excluded.created_at, expires_at = excluded.expires_at, owner_token = excluded.owner_token
    WHERE k.expires_at <= {now_iso} OR (k.status_code = 0 AND k.owner_token = excluded.owner_token)
    RETURNING
        k.idempotency_key, k.fingerprint, k.response_data, k.status_code, k.headers, k.created_at, k.expires_at,
        k.owner_token, true AS is_live
)
SELECT * FROM made
UNION ALL
SELECT {kept} FROM {rows} AS r JOIN @holdfast_idempotency AS k ON k.idempotency_key = r.idempotency_key
WHERE k.expires_at > {now_iso} AND NOT (k.status_code = 0 AND k.owner_token = r.token)

-- name: keys_claim
-- rows: idempotency_key text, fingerprint text, token text, later_ms bigint, note text
{claim};

-- name: keys_claim_many
-- only: postgres
-- rows: idempotency_key text, fingerprint text, token text, later_ms bigint, note text
-- The same for several: nobody is looked for if every claim was made. To count them would make a lone claim slower.
{claim} AND (SELECT COUNT(*) FROM made) < (SELECT COUNT(*) FROM {rows} AS x);

-- name: keys_release
-- rows: idempotency_key text, token text
DELETE FROM @holdfast_idempotency AS k
USING {rows} AS r
WHERE k.idempotency_key = r.idempotency_key AND k.status_code = 0
  AND (k.owner_token = r.token OR (r.token IS NULL AND k.expires_at <= {now_iso}))
RETURNING k.idempotency_key;
