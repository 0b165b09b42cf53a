-- fragment: large_channel
json_extract(j.value, '$[0]')

-- fragment: large_version
json_extract(j.value, '$[1]')

-- fragment: large_items
CROSS JOIN json_each(p.large) AS j
