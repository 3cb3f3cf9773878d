-- Labels that a worker must have, and keys of the jobs that must be done first; NULL where there are
-- none, which costs a claim nothing to look at.
ALTER TABLE jobs ADD COLUMN needs text[];
ALTER TABLE jobs ADD COLUMN depends_on text[];
UPDATE jobs SET needs =
    (SELECT array_agg(need) FROM tickets,
        jsonb_array_elements_text(tickets.body::jsonb #> '{spec,context,needs}') AS need
    WHERE tickets.id = jobs.ticket)
WHERE state IN ('waiting', 'ready', 'leased') AND ticket IS NOT NULL;
UPDATE jobs SET needs =
    (SELECT array_agg(need #>> '{}') FROM jsonb_array_elements(body::jsonb #> '{context,needs}') AS need
    WHERE jsonb_typeof(need) = 'string')
WHERE state IN ('waiting', 'ready', 'leased') AND ticket IS NULL
    AND jsonb_typeof(body::jsonb #> '{context,needs}') = 'array';
UPDATE jobs SET depends_on =
    (SELECT array_agg('task/' || (one #>> '{}')) FROM jsonb_array_elements(body::jsonb -> 'depends_on') AS one
    WHERE jsonb_typeof(one) = 'string')
WHERE state IN ('waiting', 'ready', 'leased') AND ticket IS NULL
    AND jsonb_typeof(body::jsonb -> 'depends_on') = 'array';
