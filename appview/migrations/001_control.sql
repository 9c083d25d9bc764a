-- control.db: what the appview knows outside the memory of any one space.

-- Every space that a config record has declared or that the operator has admitted. `config` is the record as
-- JSON; NULL before it is known and once it was deleted. `admitted` = 0: removed by the operator, and hidden
-- until admitted again.
CREATE TABLE spaces (
    uri         TEXT PRIMARY KEY,
    authority   TEXT NOT NULL,
    kind        TEXT NOT NULL DEFAULT 'public',
    config      TEXT,
    config_cid  TEXT,
    config_rev  TEXT,
    admitted    INTEGER NOT NULL DEFAULT 1 CHECK (admitted IN (0, 1)),
    declared_at INTEGER NOT NULL          -- microseconds since 1970
) STRICT;
CREATE INDEX spaces_by_authority ON spaces (authority);

-- Every account whose repo is followed: authorities, members, and those about to be.
CREATE TABLE repos (
    did        TEXT PRIMARY KEY,
    rev        TEXT,                      -- last rev proven
    data       TEXT,                      -- CID of its MST root
    status     TEXT NOT NULL DEFAULT 'active',
    pds        TEXT,
    handle     TEXT,
    sync_state TEXT NOT NULL DEFAULT 'pending'
               CHECK (sync_state IN ('pending', 'synchronized', 'desynchronized')),
    error      TEXT,
    attempts   INTEGER NOT NULL DEFAULT 0,
    retry_at   INTEGER,                   -- microseconds since 1970
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX repos_by_state ON repos (sync_state, retry_at);

-- Which (space, author) pairs have been filled from the author's whole repo.
CREATE TABLE memberships (
    space TEXT NOT NULL,
    did   TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'synced')),
    mark  TEXT,                           -- digest of what the author might write when it was filled
    PRIMARY KEY (space, did)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_by_did ON memberships (did);

-- Spaces whose files are to be put right: what follows from the facts is derived anew (mend), or the file is
-- made anew from the authors' repos (rebuild).
CREATE TABLE repairs (
    space    TEXT PRIMARY KEY,
    kind     TEXT NOT NULL CHECK (kind IN ('mend', 'rebuild')),
    asked_at INTEGER NOT NULL              -- microseconds since 1970
) STRICT, WITHOUT ROWID;

-- How far each source has been read: everything up to `position` is in the files it feeds.
CREATE TABLE cursors (
    source     TEXT PRIMARY KEY,
    position   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far the list of a host's accounts has been gone through: `cursor` of its next page, NULL at the start;
-- when it was last gone through to its end, NULL while it is not.
CREATE TABLE discoveries (
    host        TEXT PRIMARY KEY,
    cursor      TEXT,
    finished_at INTEGER                   -- microseconds since 1970
) STRICT, WITHOUT ROWID;

-- The access rules, in Casbin's own shape. `policy_version` in `meta` grows with every change.
CREATE TABLE casbin_rule (
    id    INTEGER PRIMARY KEY,
    ptype TEXT NOT NULL CHECK (ptype IN ('p', 'g')),
    v0    TEXT NOT NULL DEFAULT '',
    v1    TEXT NOT NULL DEFAULT '',
    v2    TEXT NOT NULL DEFAULT '',
    v3    TEXT NOT NULL DEFAULT '',
    v4    TEXT NOT NULL DEFAULT '',
    v5    TEXT NOT NULL DEFAULT '',
    UNIQUE (ptype, v0, v1, v2, v3, v4, v5)
) STRICT;

-- What the roles of a space may do: members and the authority write, the authority governs. Who else reads is
-- decided for each space when it comes. An operator may change these like any other rule.
INSERT INTO casbin_rule (ptype, v0, v1, v2, v3, v4) VALUES
    ('p', 'role:member',    '*', 'path:/*', 'read',   'allow'),
    ('p', 'role:member',    '*', 'path:/*', 'write',  'allow'),
    ('p', 'role:member',    '*', 'path:/*', 'delete', 'allow'),
    ('p', 'role:authority', '*', 'path:/*', 'read',   'allow'),
    ('p', 'role:authority', '*', 'path:/*', 'write',  'allow'),
    ('p', 'role:authority', '*', 'path:/*', 'delete', 'allow'),
    ('p', 'role:authority', '*', 'path:/*', 'admin',  'allow'),
    ('p', 'role:operator',  '*', 'path:/*', 'admin',  'allow');

-- `version` is the policy version that a change made, NULL where it left the rules and the tags of paths alone: a
-- reader of an older version takes over what came since without reading all rules again.
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,             -- microseconds since 1970
    actor   TEXT NOT NULL,                -- a DID, a token's name, or 'operator'
    action  TEXT NOT NULL,                -- what was asked for, such as 'member add'
    before  TEXT NOT NULL,                -- JSON: what it took away
    after   TEXT NOT NULL,                -- JSON: what it added
    version INTEGER UNIQUE
) STRICT;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('policy_version', '1');
