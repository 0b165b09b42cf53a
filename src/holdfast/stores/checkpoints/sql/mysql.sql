-- name: checkpoints_save
INSERT INTO @holdfast_checkpoints ("key", data, size_bytes, compressed, created_at, accessed_at, save_key)
SELECT r.checkpoint_key, r.data, r.size_bytes, r.compressed, {now_iso}, {now_iso}, r.save_key
FROM {rows} AS r
ORDER BY r.checkpoint_key
ON DUPLICATE KEY UPDATE
    data = VALUES(data), size_bytes = VALUES(size_bytes), compressed = VALUES(compressed),
    accessed_at = VALUES(accessed_at), save_key = VALUES(save_key);

-- name: checkpoints_saved
SELECT c."key" AS checkpoint_key, c.save_key FROM {rows} AS r
STRAIGHT_JOIN @holdfast_checkpoints AS c FORCE INDEX (PRIMARY) ON c."key" = r.checkpoint_key;

-- name: checkpoints_load
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_checkpoints AS c FORCE INDEX (PRIMARY) ON c."key" = r.checkpoint_key
SET c.accessed_at = {now_iso};

-- name: checkpoints_data
-- rows: checkpoint_key text
-- only: mysql
SELECT c."key" AS checkpoint_key, c.data FROM {rows} AS r
STRAIGHT_JOIN @holdfast_checkpoints AS c FORCE INDEX (PRIMARY) ON c."key" = r.checkpoint_key;
