-- Objects on their way between repositories that reach each other by no other way. What is wanted and
-- not there yet has no bytes.
CREATE TABLE parcels (
    key    TEXT    PRIMARY KEY,
    tip    TEXT    NOT NULL, -- the commit that it is about
    why    TEXT,             -- why it cannot be had
    wanted INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    bytes  BLOB
) STRICT;
CREATE INDEX parcels_wanted ON parcels (at) WHERE wanted;
