-- How fresh memories are: for each who recalls them, and (subject '') for the space from its members' recalls.
-- By record, so an update of the record keeps it and a deletion, which removes it here, ends it. In a table of its
-- own, so that a recall does not rewrite the fact with its vector. A memory that was never recalled has no row.
CREATE TABLE strengths (
    author         TEXT NOT NULL,
    rkey           TEXT NOT NULL,
    subject        TEXT NOT NULL,
    recalled_at    INTEGER NOT NULL,  -- the last time
    recalls        INTEGER NOT NULL,
    stability_days REAL NOT NULL,
    PRIMARY KEY (author, rkey, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX strengths_by_subject ON strengths (subject);

ALTER TABLE facts DROP COLUMN last_recall_at;
ALTER TABLE facts DROP COLUMN recall_count;
ALTER TABLE facts DROP COLUMN stability_days;
