-- What an agent says under a claim, held until the claim is reported: disputes of findings, and
-- verdicts that were sent as messages. Both were messages to made-up addresses.
CREATE TABLE claim_statements (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    ticket  TEXT    NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    serial  INTEGER NOT NULL,
    fence   INTEGER NOT NULL,
    kind    TEXT    NOT NULL, -- dispute, approved, changes_requested
    finding TEXT,             -- the one that is disputed
    at      INTEGER NOT NULL,
    by      TEXT    NOT NULL,
    text    TEXT    NOT NULL
) STRICT;
CREATE INDEX claim_statements_of_claim ON claim_statements (ticket, serial, fence, id);
INSERT INTO claim_statements (ticket, serial, fence, kind, finding, at, by, text)
SELECT ticket, CAST(claim AS INTEGER), CAST(substr(claim, instr(claim, '/') + 1) AS INTEGER), 'dispute',
    CASE instr(content, char(10)) WHEN 0 THEN content ELSE substr(content, 1, instr(content, char(10)) - 1) END,
    at, sender,
    CASE instr(content, char(10)) WHEN 0 THEN '' ELSE substr(content, instr(content, char(10)) + 1) END
FROM (SELECT *, substr(recipient, length('dispute:' || ticket || '/') + 1) AS claim FROM messages
    WHERE ticket IN (SELECT id FROM tickets)
        AND substr(recipient, 1, length('dispute:' || ticket || '/')) = 'dispute:' || ticket || '/'
    ORDER BY id);
INSERT INTO claim_statements (ticket, serial, fence, kind, at, by, text)
SELECT ticket, CAST(claim AS INTEGER), CAST(substr(claim, instr(claim, '/') + 1) AS INTEGER), kind,
    at, sender, content
FROM (SELECT *, substr(recipient, length('verdict:' || ticket || '/') + 1) AS claim FROM messages
    WHERE ticket IN (SELECT id FROM tickets) AND kind IN ('approved', 'changes_requested')
        AND substr(recipient, 1, length('verdict:' || ticket || '/')) = 'verdict:' || ticket || '/'
    ORDER BY id);

-- Rules that people have accepted for a repository's builders, or rejected. They keep their numbers.
CREATE TABLE project_rules (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    repository   TEXT    NOT NULL,
    accepted     INTEGER NOT NULL,
    text         TEXT    NOT NULL,
    by           TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    withdrawn_at INTEGER
) STRICT;
CREATE INDEX project_rules_in_force ON project_rules (repository, id) WHERE withdrawn_at IS NULL;
INSERT INTO project_rules (id, repository, accepted, text, by, at, withdrawn_at)
SELECT id, substr(recipient, length('house-rules-accepted:') + 1), 1, content, sender, at, processed_at
FROM messages WHERE substr(recipient, 1, length('house-rules-accepted:')) = 'house-rules-accepted:';
INSERT INTO project_rules (id, repository, accepted, text, by, at, withdrawn_at)
SELECT id, substr(recipient, length('house-rules-rejected:') + 1), 0, content, sender, at, processed_at
FROM messages WHERE substr(recipient, 1, length('house-rules-rejected:')) = 'house-rules-rejected:';

DELETE FROM messages WHERE substr(recipient, 1, 8) IN ('dispute:', 'verdict:')
    OR substr(recipient, 1, 21) IN ('house-rules-accepted:', 'house-rules-rejected:');
