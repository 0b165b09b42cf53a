-- Checkpoints. accessed_at is the time of the last save or load: what was not used for longest goes first.

-- name: checkpoints_save
-- rows: checkpoint_key text, data bytes, size_bytes int, compressed bool, save_key text
INSERT INTO @holdfast_checkpoints ("key", data, size_bytes, compressed, created_at, accessed_at, save_key)
SELECT r.checkpoint_key, r.data, r.size_bytes, r.compressed, {now_iso}, {now_iso}, r.save_key
FROM {rows} AS r
WHERE true
ORDER BY r.checkpoint_key
ON CONFLICT ("key") DO UPDATE
SET data = excluded.data, size_bytes = excluded.size_bytes, compressed = excluded.compressed,
    accessed_at = excluded.accessed_at, save_key = excluded.save_key;

-- name: checkpoints_saved
-- rows: checkpoint_key text
SELECT c."key" AS checkpoint_key, c.save_key FROM {rows} AS r
JOIN @holdfast_checkpoints AS c ON c."key" = r.checkpoint_key;

-- name: checkpoints_load
-- rows: checkpoint_key text
UPDATE @holdfast_checkpoints AS c
SET accessed_at = {now_iso}
FROM {rows} AS r
WHERE c."key" = r.checkpoint_key
RETURNING "key" AS checkpoint_key, data;

-- name: checkpoint_delete
DELETE FROM @holdfast_checkpoints WHERE "key" = :checkpoint_key;

-- name: checkpoint_keys
SELECT c."key" AS checkpoint_key FROM @holdfast_checkpoints AS c
WHERE true [[ AND c."key" >= :prefix ]] [[ AND c."key" < :until ]]
ORDER BY c."key";

-- name: checkpoints_old_delete
DELETE FROM @holdfast_checkpoints WHERE accessed_at < {later_iso};

-- name: checkpoints_beyond
-- What is left out when the most recently used are taken until one limit is reached. What was saved just now is taken
-- first: by a clock that was set back, or within one tick of it, it need not be the most recent.
SELECT u."key" AS checkpoint_key, u.accessed_at FROM (
    SELECT c."key", c.accessed_at,
        ROW_NUMBER() OVER (ORDER BY c.turn, c.accessed_at DESC, c."key" DESC) AS place,
        SUM(c.size_bytes) OVER (ORDER BY c.turn, c.accessed_at DESC, c."key" DESC) AS bytes
    FROM (
        SELECT p."key", p.accessed_at, p.size_bytes, CASE WHEN p."key" = :just_saved THEN 0 ELSE 1 END AS turn
        FROM @holdfast_checkpoints AS p
    ) AS c
) AS u
WHERE false [[ OR u.place > :max_entries ]] [[ OR u.bytes > :max_bytes ]];

-- name: checkpoint_unused_delete
-- One that was used meanwhile stays.
DELETE FROM @holdfast_checkpoints WHERE "key" = :checkpoint_key AND accessed_at = :accessed_at;
