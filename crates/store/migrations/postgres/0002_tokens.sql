-- Who may speak. The secret itself is nowhere: only its hash is.
CREATE TABLE tokens (
    id         text   PRIMARY KEY,
    hash       text   NOT NULL UNIQUE,
    agent      text   NOT NULL,
    principal  text   NOT NULL, -- whom the agent stands for
    role       text   NOT NULL,
    family     text,
    ticket     text,            -- the only one that it may speak of
    created_by text   NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
