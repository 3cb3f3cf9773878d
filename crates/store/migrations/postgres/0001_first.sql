-- The same tables as on SQLite (see there for what each is for); what differs is said here.

-- The database's clock, in milliseconds: one answer for a whole statement, so that an index can
-- be searched by it.
CREATE FUNCTION clock_ms() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint';

-- Refuses a statement that found fewer rows than it was sent for, and its transaction with it.
CREATE FUNCTION assert_all(met bigint, wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF met <> wanted THEN
        RAISE EXCEPTION 'met % of %', met, wanted USING ERRCODE = 'CS001';
    END IF;
END $$;

CREATE TABLE tickets (
    number        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text    NOT NULL UNIQUE,
    version       bigint  NOT NULL,
    stage         text    NOT NULL,
    title         text    NOT NULL,
    priority      integer NOT NULL,
    round         bigint  NOT NULL,
    epic          text,
    repository    text,
    waits_for     bigint  NOT NULL,
    open_must_fix bigint  NOT NULL,
    usd_micros    bigint  NOT NULL,
    created_at    bigint  NOT NULL,
    updated_at    bigint  NOT NULL,
    policy        text    NOT NULL,
    body          text    NOT NULL
);
CREATE INDEX tickets_by_stage ON tickets (stage, number);
CREATE INDEX tickets_by_epic ON tickets (epic, number) WHERE epic IS NOT NULL;
CREATE INDEX tickets_by_repository ON tickets (repository, number) WHERE repository IS NOT NULL;

CREATE TABLE rounds (
    ticket        text    NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    number        bigint  NOT NULL,
    commit_id     text    NOT NULL,
    decided_at    bigint  NOT NULL,
    approved      boolean NOT NULL,
    open_must_fix bigint  NOT NULL,
    overall_score bigint,
    usd_micros    bigint  NOT NULL,
    tokens        bigint  NOT NULL,
    wall_ms       bigint  NOT NULL,
    PRIMARY KEY (ticket, number)
);

CREATE TABLE findings (
    ticket      text   NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    id          text   NOT NULL,
    fingerprint text   NOT NULL,
    severity    text   NOT NULL,
    status      text   NOT NULL,
    category    text,
    file        text,
    line        bigint,
    title       text   NOT NULL,
    reported_by text   NOT NULL,
    first_round bigint NOT NULL,
    last_round  bigint NOT NULL,
    PRIMARY KEY (ticket, id)
);

CREATE TABLE dependencies (
    dependency text NOT NULL,
    dependant  text NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    PRIMARY KEY (dependency, dependant)
);
CREATE INDEX dependencies_by_dependant ON dependencies (dependant);

CREATE TABLE jobs (
    id          bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue       text    NOT NULL,
    state       text    NOT NULL, -- a CHECK would be read and planned anew by every statement
    agent       text    NOT NULL,
    priority    integer NOT NULL,
    ticket      text REFERENCES tickets (id),
    serial      bigint,
    tracked     boolean NOT NULL,
    kind        text    NOT NULL,
    fence       bigint  NOT NULL DEFAULT 0,
    attempts    bigint  NOT NULL DEFAULT 0,
    created_at  bigint  NOT NULL,
    not_before  bigint  NOT NULL,
    lease_until bigint,
    ended_at    bigint,
    holder      text,
    key         text,
    last_error  text,
    result      text,
    body        text    NOT NULL
);
CREATE INDEX jobs_ready ON jobs (queue, agent, priority DESC, id) WHERE state = 'ready';
CREATE INDEX jobs_waiting ON jobs (queue, not_before) WHERE state = 'waiting';
-- One for all leases, and none by queue alone: here every statement that changes a job pays for
-- each index, and every change of its state writes to those that hold it.
CREATE INDEX jobs_leased ON jobs (queue, lease_until) WHERE state = 'leased';
CREATE INDEX jobs_dead ON jobs (id) WHERE state = 'dead';
CREATE UNIQUE INDEX jobs_of_ticket ON jobs (ticket, serial) WHERE ticket IS NOT NULL;
CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE key IS NOT NULL;

-- Sequence numbers are given before the commit and may become visible out of order. So each event
-- has its transaction's number too, and is read only when no older transaction can still commit.
CREATE TABLE events (
    tx         xid8   NOT NULL DEFAULT pg_current_xact_id(),
    sequence   bigint GENERATED ALWAYS AS IDENTITY,
    ticket     text,
    version    bigint,
    policy     text,
    at         bigint NOT NULL,
    name       text   NOT NULL,
    by         text   NOT NULL,
    usd_micros bigint,
    tokens     bigint,
    wall_ms    bigint,
    body       text   NOT NULL,
    PRIMARY KEY (tx, sequence)
);
CREATE INDEX events_of_ticket ON events (ticket, tx, sequence) WHERE ticket IS NOT NULL;
CREATE UNIQUE INDEX events_by_version ON events (ticket, version) WHERE version IS NOT NULL;
CREATE INDEX events_spent ON events (at) INCLUDE (usd_micros, tokens, wall_ms)
    WHERE wall_ms IS NOT NULL;
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the event log is append-only';
END $$;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TABLE policies (
    id   text PRIMARY KEY,
    body text NOT NULL
);

CREATE TABLE answers (
    key          text PRIMARY KEY,
    payload_hash text   NOT NULL,
    answer       text   NOT NULL,
    at           bigint NOT NULL
);

CREATE TABLE artefacts (
    number bigint GENERATED ALWAYS AS IDENTITY,
    ticket text   NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    round  bigint NOT NULL,
    kind   text   NOT NULL,
    name   text   NOT NULL,
    path   text   NOT NULL,
    bytes  bigint NOT NULL,
    UNIQUE (ticket, round, kind, name, path)
);

CREATE TABLE epics (
    id         text PRIMARY KEY,
    title      text   NOT NULL,
    body       text   NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE pauses (
    scope text NOT NULL,
    name  text NOT NULL,
    until bigint,
    why   text NOT NULL,
    by    text NOT NULL,
    PRIMARY KEY (scope, name)
);

CREATE TABLE messages (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           bigint NOT NULL,
    sender       text   NOT NULL,
    recipient    text   NOT NULL,
    kind         text   NOT NULL,
    ticket       text,
    content      text   NOT NULL,
    processed_at bigint
);
CREATE INDEX messages_open ON messages (recipient, id) WHERE processed_at IS NULL;

CREATE TABLE agents (
    name    text PRIMARY KEY,
    role    text   NOT NULL,
    seen_at bigint NOT NULL,
    body    text   NOT NULL
);

-- Somebody waits for this queue and has to be told. Not logged: after a crash nobody waits.
CREATE UNLOGGED TABLE wakeups (
    queue text PRIMARY KEY,
    armed boolean NOT NULL
);
