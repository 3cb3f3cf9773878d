-- A random name for this very database, so that a program notices when the file under it is another.
CREATE TABLE database_identity (
    id TEXT NOT NULL
) STRICT;
INSERT INTO database_identity (id) VALUES (lower(hex(randomblob(16))));
