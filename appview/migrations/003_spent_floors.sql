-- Of an account that has spent more tokens than can be remembered one by one: none of its tokens is taken that
-- expires by then.
CREATE TABLE spent_floors (
    issuer TEXT PRIMARY KEY,
    until  INTEGER NOT NULL               -- seconds since 1970
) STRICT, WITHOUT ROWID;

CREATE INDEX spent_tokens_by_issuer ON spent_tokens (issuer, expires);
