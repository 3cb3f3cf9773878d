-- Whose jobs they are while somebody holds them, and how many of one provider may be held at once.
ALTER TABLE jobs ADD COLUMN provider text;
CREATE TABLE provider_limits (
    provider text   PRIMARY KEY,
    most     bigint NOT NULL
);
