-- The body of a ticket is the truth. Every other column, and the tables rounds, findings and
-- dependencies, are projections of it, written in the same transaction.

CREATE TABLE tickets (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT    NOT NULL UNIQUE,
    version       INTEGER NOT NULL,
    stage         TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    priority      INTEGER NOT NULL,
    round         INTEGER NOT NULL,
    epic          TEXT,
    repository    TEXT,
    waits_for     INTEGER NOT NULL,
    open_must_fix INTEGER NOT NULL,
    usd_micros    INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    policy        TEXT    NOT NULL, -- that it was last decided under
    body          TEXT    NOT NULL
) STRICT;
CREATE INDEX tickets_by_stage ON tickets (stage, number);
CREATE INDEX tickets_by_epic ON tickets (epic, number) WHERE epic IS NOT NULL;
CREATE INDEX tickets_by_repository ON tickets (repository, number) WHERE repository IS NOT NULL;

CREATE TABLE rounds (
    ticket        TEXT    NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    number        INTEGER NOT NULL,
    commit_id     TEXT    NOT NULL,
    decided_at    INTEGER NOT NULL,
    approved      INTEGER NOT NULL,
    open_must_fix INTEGER NOT NULL,
    overall_score INTEGER,
    usd_micros    INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    wall_ms       INTEGER NOT NULL,
    PRIMARY KEY (ticket, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE findings (
    ticket      TEXT    NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    id          TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    severity    TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    category    TEXT,
    file        TEXT,
    line        INTEGER,
    title       TEXT    NOT NULL,
    reported_by TEXT    NOT NULL,
    first_round INTEGER NOT NULL,
    last_round  INTEGER NOT NULL,
    PRIMARY KEY (ticket, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE dependencies (
    dependency TEXT NOT NULL,
    dependant  TEXT NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    PRIMARY KEY (dependency, dependant)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_by_dependant ON dependencies (dependant);

-- Ids are never used twice (AUTOINCREMENT): a job's id and fence together name one claim for ever.
CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    queue       TEXT    NOT NULL,
    state       TEXT    NOT NULL, -- waiting, ready, leased, done, dropped, dead
    agent       TEXT    NOT NULL, -- '' where anybody may have it
    priority    INTEGER NOT NULL,
    ticket      TEXT REFERENCES tickets (id),
    serial      INTEGER,
    tracked     INTEGER NOT NULL, -- a ticket follows it: only the ticket's events end it
    kind        TEXT    NOT NULL,
    fence       INTEGER NOT NULL DEFAULT 0,
    attempts    INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    not_before  INTEGER NOT NULL,
    lease_until INTEGER,
    ended_at    INTEGER,
    holder      TEXT,
    key         TEXT,
    last_error  TEXT,
    result      TEXT,
    body        TEXT    NOT NULL
) STRICT;
-- What a claim looks at. Each index holds live jobs only, so that a claim costs the same
-- whatever has been finished, waits or is blocked.
CREATE INDEX jobs_ready ON jobs (queue, agent, priority DESC, id) WHERE state = 'ready';
CREATE INDEX jobs_waiting ON jobs (queue, not_before) WHERE state = 'waiting';
CREATE INDEX jobs_leased ON jobs (queue, lease_until) WHERE state = 'leased';
-- What people look at.
CREATE INDEX jobs_by_queue ON jobs (queue, id);
CREATE INDEX jobs_dead ON jobs (id) WHERE state = 'dead';
CREATE UNIQUE INDEX jobs_of_ticket ON jobs (ticket, serial) WHERE ticket IS NOT NULL;
CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE key IS NOT NULL;

-- Without AUTOINCREMENT, which costs more than the row: so that no number is used twice, the
-- newest event is never removed.
CREATE TABLE events (
    sequence   INTEGER PRIMARY KEY,
    ticket     TEXT,
    version    INTEGER, -- NULL in a note, which changed no ticket
    policy     TEXT,
    at         INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    usd_micros INTEGER, -- NULL where nothing was used
    tokens     INTEGER,
    wall_ms    INTEGER,
    body       TEXT    NOT NULL
) STRICT;
CREATE INDEX events_of_ticket ON events (ticket, sequence) WHERE ticket IS NOT NULL;
CREATE UNIQUE INDEX events_by_version ON events (ticket, version) WHERE version IS NOT NULL;
CREATE INDEX events_spent ON events (at, usd_micros, tokens, wall_ms) WHERE wall_ms IS NOT NULL;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;

CREATE TABLE policies (
    id   TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE answers (
    key          TEXT PRIMARY KEY,
    payload_hash TEXT    NOT NULL,
    answer       TEXT    NOT NULL,
    at           INTEGER NOT NULL
) STRICT;

CREATE TABLE artefacts (
    ticket TEXT    NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    round  INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    path   TEXT    NOT NULL,
    bytes  INTEGER NOT NULL,
    UNIQUE (ticket, round, kind, name, path)
) STRICT;

CREATE TABLE epics (
    id         TEXT PRIMARY KEY,
    title      TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE pauses (
    scope  TEXT NOT NULL, -- agent, queue, provider
    name   TEXT NOT NULL,
    until  INTEGER,
    why    TEXT NOT NULL,
    by     TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    sender       TEXT    NOT NULL,
    recipient    TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    ticket       TEXT,
    content      TEXT    NOT NULL,
    processed_at INTEGER
) STRICT;
CREATE INDEX messages_open ON messages (recipient, id) WHERE processed_at IS NULL;

CREATE TABLE agents (
    name    TEXT PRIMARY KEY,
    role    TEXT    NOT NULL,
    seen_at INTEGER NOT NULL,
    body    TEXT    NOT NULL
) STRICT;
