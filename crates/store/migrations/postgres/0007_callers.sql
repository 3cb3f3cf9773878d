-- Which claim each process of a token was given last: a report that names no attempt counts for it.
CREATE TABLE callers (
    token   text   NOT NULL,
    session text   NOT NULL, -- '' where the protocol has no sessions
    version bigint NOT NULL,
    at      bigint NOT NULL,
    body    text   NOT NULL,
    PRIMARY KEY (token, session)
);
