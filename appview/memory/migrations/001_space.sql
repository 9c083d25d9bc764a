-- One space's whole memory. Times are microseconds since 1970, UTC.

PRAGMA application_id = 1701734258;  -- "engr"

-- space: its URI. config: its config record as JSON (absent while there is none). analysis: version of the text
-- analysis that filled facts_fts. data_version: grows with every change of what a query can see.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('data_version', '0');

-- The models that stored embeddings were made with: so that a fact holds a number instead of three strings.
CREATE TABLE models (
    id     INTEGER PRIMARY KEY,
    model  TEXT NOT NULL,
    digest TEXT NOT NULL,
    dims   INTEGER NOT NULL,
    UNIQUE (model, digest, dims)
) STRICT;

-- The tree of topics. Structure only: what a path holds is in facts. A path that holds nothing, leads to
-- nothing and has no tags is removed, because its name is somebody's text.
CREATE TABLE paths (
    id        INTEGER PRIMARY KEY,
    parent_id INTEGER REFERENCES paths (id),
    segment   TEXT NOT NULL,
    full_path TEXT NOT NULL UNIQUE
) STRICT;
CREATE INDEX paths_by_parent ON paths (parent_id);
INSERT INTO paths VALUES (1, NULL, '', '/');

-- One version of one memory a row. It is live while invalidated_at is NULL; only live facts have rows in
-- facts_fts, the vector tables, fact_labels, fact_tags and effective_tags. An update of the record inserts a new
-- row that supersedes the old one. A deleted record keeps one row without text, tags, vector, CID and path: the
-- tombstone. A fact whose vector does not fit the config any more is not live either: its record waits in
-- `skipped`, and when it fits again the same row comes back to life.
-- path_id has no foreign key: checking one would need an index over facts of all kinds.
CREATE TABLE facts (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    uri             TEXT NOT NULL,
    cid             TEXT NOT NULL,
    author          TEXT NOT NULL,
    rkey            TEXT NOT NULL,
    rev             TEXT NOT NULL,
    path_id         INTEGER NOT NULL,
    content         TEXT NOT NULL,
    source          TEXT,
    tags            TEXT NOT NULL DEFAULT '[]',  -- JSON array, as written
    created_at      TEXT NOT NULL,               -- as claimed
    recorded_at     INTEGER NOT NULL,            -- when this version was indexed
    ordered_at      INTEGER NOT NULL,            -- the earlier of created_at and recorded_at
    invalidated_at  INTEGER,
    supersedes_id   INTEGER,                     -- the version before, where this file still holds it
    deleted_at      INTEGER,
    last_recall_at  INTEGER,
    recall_count    INTEGER NOT NULL DEFAULT 0,
    stability_days  REAL NOT NULL DEFAULT 1.0,
    embedding_model      INTEGER REFERENCES models (id),
    embedding            BLOB,                   -- f16le as published
    next_embedding_model INTEGER REFERENCES models (id),
    next_embedding       BLOB,
    CHECK (deleted_at IS NULL OR invalidated_at IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX facts_live ON facts (author, rkey) WHERE invalidated_at IS NULL;
CREATE INDEX facts_in_order ON facts (ordered_at DESC, author DESC, rkey DESC) WHERE invalidated_at IS NULL;
CREATE INDEX facts_by_path ON facts (path_id, ordered_at, author, rkey) WHERE invalidated_at IS NULL;
CREATE INDEX history ON facts (author, rkey) WHERE invalidated_at IS NOT NULL;
CREATE INDEX history_by_path ON facts (path_id) WHERE invalidated_at IS NOT NULL;

-- key=value tags of live facts and of paths, one value a key.
CREATE TABLE fact_tags (
    fact_id INTEGER NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (fact_id, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE path_tags (
    path_id   INTEGER NOT NULL REFERENCES paths (id) ON DELETE CASCADE,
    key       TEXT NOT NULL,
    value     TEXT NOT NULL,
    protected INTEGER NOT NULL DEFAULT 0 CHECK (protected IN (0, 1)),
    PRIMARY KEY (path_id, key)
) STRICT, WITHOUT ROWID;

-- A live fact's attributes after inheritance: the nearest path wins, the fact's own beat inherited ones unless a
-- path above protects the key. Kept by the writer, never written by hand. `owner` has no rows: it is facts.author.
CREATE TABLE effective_tags (
    fact_id INTEGER NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (fact_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX effective_tags_by_value ON effective_tags (key, value, fact_id);

-- Every distinct tag of a live fact as written: what the `tags` filter matches.
CREATE TABLE fact_labels (
    label   TEXT NOT NULL,
    fact_id INTEGER NOT NULL,
    PRIMARY KEY (label, fact_id)
) STRICT, WITHOUT ROWID;

-- Keyword index over analysed text: words are already split, folded and joined by spaces, so the tokenizer only
-- splits at spaces. text, tags and source hold a fact's searchable words (word forms reduced to their stem,
-- identifiers whole and split), in no order that means anything; exact holds the words of all three as they
-- stand, each marked with "=", in order. Contentless: the analysed text is not kept.
CREATE VIRTUAL TABLE facts_fts USING fts5 (
    text,
    tags,
    source,
    exact,
    content = '',
    contentless_delete = 1,
    tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);
-- The same index seen as (word, fact, column, position) and as (word, number of facts).
CREATE VIRTUAL TABLE facts_fts_places USING fts5vocab (facts_fts, instance);
CREATE VIRTUAL TABLE facts_fts_words USING fts5vocab (facts_fts, row);

-- The vector indexes: role `active` answers queries, role `next` is built beside it during a model change.
-- Number n is the virtual table facts_vec_n; a promotion changes the role, because vec0 cannot be renamed.
CREATE TABLE vector_indexes (
    role     TEXT PRIMARY KEY CHECK (role IN ('active', 'next')),
    number   INTEGER NOT NULL UNIQUE,
    model_id INTEGER NOT NULL REFERENCES models (id)
) STRICT, WITHOUT ROWID;

-- What has been applied from each author's repo. Moves only in the transaction that applies the change.
CREATE TABLE repos (
    author TEXT PRIMARY KEY,
    rev    TEXT NOT NULL,
    data   TEXT
) STRICT, WITHOUT ROWID;

-- Authors whose accounts are not active: all that is theirs stays, and no reader sees it.
CREATE TABLE hidden (
    author TEXT PRIMARY KEY,
    since  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Records of writers that are not indexed, and why. `record` (DAG-CBOR) is kept where a change of the config can
-- make the record fit, NULL where nothing can. `tags` (JSON, as written; NULL where unknown) says who may see
-- that the record is here.
CREATE TABLE skipped (
    author TEXT NOT NULL,
    rkey   TEXT NOT NULL,
    rev    TEXT NOT NULL,
    cid    TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    tags   TEXT,
    record BLOB,
    at     INTEGER NOT NULL,
    PRIMARY KEY (author, rkey)
) STRICT, WITHOUT ROWID;
