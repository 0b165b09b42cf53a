-- fragment: in_list
= ANY(ARRAY(SELECT json_array_elements_text(CAST(

-- fragment: list_end
AS json))))

-- fragment: position
strpos

-- fragment: by_owner

-- fragment: priority_text
CAST(w.priority AS text)

-- fragment: attributes
-- An attribute with the escape of NUL in it is JSON that jsonb refuses; such a run has no attributes here.
CASE WHEN strpos(w.attributes, '\u0000') = 0 THEN CAST(w.attributes AS jsonb) END @> CAST(:attributes AS jsonb)
