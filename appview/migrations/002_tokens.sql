-- Credentials of callers without an account, and the accounts' tokens that were used up.

-- A token is shown once, when it is made; what is kept cannot be turned back into it. `id` is the part of it
-- that is no secret.
CREATE TABLE tokens (
    name         TEXT PRIMARY KEY,        -- the subject `token:<name>` of the access rules
    id           TEXT NOT NULL UNIQUE,
    hash         BLOB NOT NULL CHECK (length(hash) = 32),  -- SHA-256 of the whole token
    created_at   INTEGER NOT NULL,        -- microseconds since 1970
    expires_at   INTEGER,                 -- NULL: never
    last_used_at INTEGER                  -- to the minute; NULL: never
) STRICT;

-- Service-auth tokens that were used and have not expired, so that a restart does not let one be used again.
CREATE TABLE spent_tokens (
    digest  BLOB PRIMARY KEY,             -- of the account and the token's own id
    issuer  TEXT NOT NULL,
    expires INTEGER NOT NULL              -- seconds since 1970
) STRICT, WITHOUT ROWID;
CREATE INDEX spent_tokens_by_expiry ON spent_tokens (expires);
