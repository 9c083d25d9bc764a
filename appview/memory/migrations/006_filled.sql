-- Digest of what the author might write here when the whole repo was last applied; NULL where that was before this
-- column. A control.db that says something else about the author is older than the file.
ALTER TABLE repos ADD COLUMN scope TEXT;
