-- Objects on their way between repositories that reach each other by no other way. What is wanted and
-- not there yet has no bytes.
CREATE TABLE parcels (
    key    text    PRIMARY KEY,
    tip    text    NOT NULL, -- the commit that it is about
    why    text,             -- why it cannot be had
    wanted boolean NOT NULL,
    at     bigint  NOT NULL,
    bytes  bytea
);
CREATE INDEX parcels_wanted ON parcels (at) WHERE wanted;
