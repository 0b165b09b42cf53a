-- fragment: planned
-- Planned for the values there are. A plan for any values, which PostgreSQL makes after some calls, does not know how
-- short a page is, and walks all runs in search of a rare one.
SET LOCAL plan_cache_mode = force_custom_plan;
[[ narrow? SET LOCAL enable_seqscan = off; ]]

-- fragment: probed
-- A bitmap is made of all that an index leads to, before the first run is counted; a walk along it ends at the limit.
SET LOCAL plan_cache_mode = force_custom_plan;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;

-- fragment: in_list
-- An array: the planner looks into it, which it does not do with the elements of a JSON text.
= ANY(CAST(

-- fragment: list_end
AS text[]))

-- fragment: position
strpos

-- fragment: by_owner

-- fragment: status_text
-- As in the index of what waits in queues.
w.status || ''

-- fragment: forked_text
-- As in the index of forks.
w.forked_from || ''

-- fragment: priority_text
CAST(w.priority AS text)

-- fragment: attributes
-- In the words of the index. An attribute with the escape of NUL in it is JSON that jsonb refuses; such a run is not
-- found by its attributes.
w.attributes IS NOT NULL
AND CASE WHEN strpos(w.attributes, '\u0000') = 0 THEN CAST(w.attributes AS jsonb) END @> CAST(:attributes AS jsonb)

-- fragment: listed_attribute
-- An index knows all attributes at once.
AND CAST(:attribute AS text) IS NOT NULL AND CAST(:attribute_value AS text) IS NOT NULL

-- fragment: attributes_any
CASE WHEN strpos(w.attributes, '\u0000') = 0 THEN CAST(w.attributes AS jsonb) @> CAST(:attributes_any AS jsonb) END
