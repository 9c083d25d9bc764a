-- What live facts point to. Kind `path`: a topic, [[/path]] in the text; target is the path, target_author ''.
-- Kind `mention`: the URI of a memory in the text. Every other kind is a relation that a tag names. Of these the
-- target is a record by author and key, which this space need not hold.
CREATE TABLE fact_links (
    fact_id       INTEGER NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    kind          TEXT NOT NULL,
    target_author TEXT NOT NULL,
    target        TEXT NOT NULL,
    PRIMARY KEY (fact_id, kind, target_author, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_links_back ON fact_links (target_author, target);
CREATE INDEX fact_links_superseding ON fact_links (fact_id) WHERE kind = 'supersedes';
