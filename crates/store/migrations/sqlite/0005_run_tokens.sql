-- The lease of the run that a token was made for; it ends with that.
ALTER TABLE tokens ADD COLUMN serial INTEGER;
ALTER TABLE tokens ADD COLUMN fence INTEGER;
