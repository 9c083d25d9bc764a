-- One space's whole memory. Times are microseconds since 1970, UTC.

-- space: its URI. config: its config record as JSON (absent before one is known). analysis: version of the text
-- analysis that filled facts_fts. data_version: grows with every change of what a query can see.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('data_version', '0');

-- The tree of topics. Structure only: what a path holds is in facts.
CREATE TABLE paths (
    id        INTEGER PRIMARY KEY,
    parent_id INTEGER REFERENCES paths (id),
    segment   TEXT NOT NULL,
    full_path TEXT NOT NULL UNIQUE
) STRICT;
CREATE INDEX paths_by_parent ON paths (parent_id, segment);
INSERT INTO paths VALUES (1, NULL, '', '/');

-- One version of one memory a row. A live fact has neither invalidated_at nor deleted_at; only live facts have
-- rows in facts_fts, facts_vec, fact_labels and effective_tags. An update of the record inserts a new row that
-- supersedes the old one. A deleted record keeps one row, without text, tags or vector: the tombstone.
CREATE TABLE facts (
    id              INTEGER PRIMARY KEY,
    uri             TEXT NOT NULL,
    cid             TEXT NOT NULL,
    author          TEXT NOT NULL,
    rkey            TEXT NOT NULL,
    rev             TEXT NOT NULL,
    path_id         INTEGER NOT NULL REFERENCES paths (id),
    content         TEXT NOT NULL,
    source          TEXT,
    tags            TEXT NOT NULL DEFAULT '[]',  -- JSON array, as written
    created_at      TEXT NOT NULL,               -- as claimed
    recorded_at     INTEGER NOT NULL,            -- when this version was indexed
    ordered_at      INTEGER NOT NULL,            -- the earlier of created_at and recorded_at
    invalidated_at  INTEGER,
    supersedes_id   INTEGER REFERENCES facts (id) ON DELETE SET NULL,
    deleted_at      INTEGER,
    last_recall_at  INTEGER,
    recall_count    INTEGER NOT NULL DEFAULT 0,
    stability_days  REAL NOT NULL DEFAULT 1.0,
    embedding             BLOB,                  -- f16le as published
    embedding_model       TEXT,                  -- {"model","modelDigest","dims"} as JSON
    next_embedding        BLOB,
    next_embedding_model  TEXT
) STRICT;
CREATE UNIQUE INDEX facts_live ON facts (author, rkey) WHERE invalidated_at IS NULL AND deleted_at IS NULL;
CREATE INDEX facts_by_record ON facts (author, rkey, id);
CREATE INDEX facts_in_order ON facts (ordered_at DESC, author DESC, rkey DESC)
    WHERE invalidated_at IS NULL AND deleted_at IS NULL;
CREATE INDEX facts_by_path ON facts (path_id, ordered_at, author, rkey)
    WHERE invalidated_at IS NULL AND deleted_at IS NULL;

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

-- A live fact's attributes after inheritance: the nearest path wins, the fact's own beat inherited ones except
-- protected keys; `owner` is always the author. Kept by the writer, never written by hand.
CREATE TABLE effective_tags (
    fact_id INTEGER NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (fact_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX effective_tags_by_value ON effective_tags (key, value, fact_id);

-- Every distinct tag of a live fact as written: what the `tags` filter matches.
CREATE TABLE fact_labels (
    fact_id INTEGER NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    label   TEXT NOT NULL,
    PRIMARY KEY (label, fact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_labels_by_fact ON fact_labels (fact_id);

-- Keyword index over analysed text: words are already split, folded and joined by spaces, so the tokenizer only
-- splits at spaces. Contentless: the analysed text is not kept.
CREATE VIRTUAL TABLE facts_fts USING fts5 (
    text,
    content = '',
    contentless_delete = 1,
    tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);

-- What has been applied from each author's repo. Moves only in the transaction that applies the change.
CREATE TABLE repos (
    author TEXT PRIMARY KEY,
    rev    TEXT NOT NULL,
    data   TEXT
) STRICT, WITHOUT ROWID;

-- Records of writers that are not indexed, and why. `record` (DAG-CBOR) is kept where a change of the config can
-- make the record fit; NULL where nothing can.
CREATE TABLE skipped (
    author TEXT NOT NULL,
    rkey   TEXT NOT NULL,
    rev    TEXT NOT NULL,
    cid    TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    record BLOB,
    at     INTEGER NOT NULL,
    PRIMARY KEY (author, rkey)
) STRICT, WITHOUT ROWID;
