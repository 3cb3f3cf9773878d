-- Who may speak. The secret itself is nowhere: only its hash is.
CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    hash       TEXT    NOT NULL UNIQUE,
    agent      TEXT    NOT NULL,
    principal  TEXT    NOT NULL, -- whom the agent stands for
    role       TEXT    NOT NULL,
    family     TEXT,
    ticket     TEXT,             -- the only one that it may speak of
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
