-- How far a named reader of the log has come. One at a time holds it, under a lease.
CREATE TABLE bookmarks (
    name        text   PRIMARY KEY,
    tx          bigint NOT NULL,
    sequence    bigint NOT NULL,
    holder      text   NOT NULL,
    lease_until bigint NOT NULL
);
