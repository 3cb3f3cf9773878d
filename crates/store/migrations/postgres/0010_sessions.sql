-- Sessions of browsers and the one-time codes that open them. Both are secrets with an identity and an
-- end, as tokens are. A session ends with the token that opened it.
ALTER TABLE tokens ADD COLUMN kind text NOT NULL DEFAULT 'bearer'; -- bearer, login_code, session
ALTER TABLE tokens ADD COLUMN parent text;
CREATE INDEX tokens_of_parent ON tokens (parent) WHERE parent IS NOT NULL;
CREATE INDEX tokens_by_kind ON tokens (kind, created_at);
