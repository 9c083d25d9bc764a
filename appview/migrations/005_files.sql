-- What each space's file was when control.db last followed it: which one (drawn when a file is made), and how many
-- transactions had changed it. A file that is another one, or has fewer, lacks what cursors and memberships stand
-- for; one that has more is ahead, as after a crash.
CREATE TABLE files (
    space  TEXT PRIMARY KEY,
    made   TEXT NOT NULL,
    writes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One more kind of repair: once the file can be opened as it is, every writer's repo fills it again (refill).
ALTER TABLE repairs RENAME TO repairs_before;
CREATE TABLE repairs (
    space    TEXT PRIMARY KEY,
    kind     TEXT NOT NULL CHECK (kind IN ('mend', 'refill', 'rebuild')),
    asked_at INTEGER NOT NULL              -- microseconds since 1970
) STRICT, WITHOUT ROWID;
INSERT INTO repairs SELECT space, kind, asked_at FROM repairs_before;
DROP TABLE repairs_before;
