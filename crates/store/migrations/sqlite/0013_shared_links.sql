-- How often a secret was used. Only links to one ticket are counted: everybody who has the address can
-- open them, so their maker wants to know.
ALTER TABLE tokens ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
