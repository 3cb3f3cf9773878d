-- State of connections to forges: positions of pollers, and schedules of writes to a host.
CREATE TABLE forge_states (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
