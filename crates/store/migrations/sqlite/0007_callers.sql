-- Which claim each process of a token was given last: a report that names no attempt counts for it.
CREATE TABLE callers (
    token   TEXT    NOT NULL,
    session TEXT    NOT NULL, -- '' where the protocol has no sessions
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (token, session)
) STRICT, WITHOUT ROWID;
