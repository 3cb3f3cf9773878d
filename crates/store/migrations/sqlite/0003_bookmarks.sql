-- How far a named reader of the log has come. One at a time holds it, under a lease.
CREATE TABLE bookmarks (
    name        TEXT PRIMARY KEY,
    tx          INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    holder      TEXT    NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
