-- Labels that a worker must have, and keys of the jobs that must be done first: JSON arrays of text,
-- NULL where there are none, which costs a claim nothing to look at.
ALTER TABLE jobs ADD COLUMN needs TEXT;
ALTER TABLE jobs ADD COLUMN depends_on TEXT;
UPDATE jobs SET needs =
    (SELECT json_extract(tickets.body, '$.spec.context.needs') FROM tickets WHERE tickets.id = jobs.ticket)
WHERE state IN ('waiting', 'ready', 'leased') AND ticket IS NOT NULL;
UPDATE jobs SET needs =
    (SELECT json_group_array(value) FROM json_each(jobs.body, '$.context.needs') WHERE type = 'text')
WHERE state IN ('waiting', 'ready', 'leased') AND ticket IS NULL
    AND json_type(body, '$.context.needs') = 'array';
UPDATE jobs SET depends_on =
    (SELECT json_group_array('task/' || value) FROM json_each(jobs.body, '$.depends_on')
    WHERE type = 'text')
WHERE state IN ('waiting', 'ready', 'leased') AND ticket IS NULL
    AND json_type(body, '$.depends_on') = 'array';
UPDATE jobs SET needs = NULL WHERE needs = '[]';
UPDATE jobs SET depends_on = NULL WHERE depends_on = '[]';
