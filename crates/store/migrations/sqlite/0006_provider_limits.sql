-- Whose jobs they are while somebody holds them, and how many of one provider may be held at once.
ALTER TABLE jobs ADD COLUMN provider TEXT;
CREATE TABLE provider_limits (
    provider TEXT    PRIMARY KEY,
    most     INTEGER NOT NULL
) STRICT;
