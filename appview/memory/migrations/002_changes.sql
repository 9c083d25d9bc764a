-- What an index in memory follows: the ids of facts that came, went or changed, in order. Whoever is further
-- behind than what is kept reads everything again.
CREATE TABLE changes (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    fact_id INTEGER NOT NULL
) STRICT;

CREATE TRIGGER fact_came AFTER INSERT ON facts WHEN new.invalidated_at IS NULL
BEGIN INSERT INTO changes (fact_id) VALUES (new.id); END;

CREATE TRIGGER fact_changed AFTER UPDATE OF author, path_id, content, source, tags, ordered_at, invalidated_at,
    embedding_model, embedding ON facts
BEGIN INSERT INTO changes (fact_id) VALUES (new.id); END;

CREATE TRIGGER fact_went AFTER DELETE ON facts WHEN old.invalidated_at IS NULL
BEGIN INSERT INTO changes (fact_id) VALUES (old.id); END;

CREATE TRIGGER changes_kept AFTER INSERT ON changes WHEN new.number % 1000 = 0
BEGIN DELETE FROM changes WHERE number <= new.number - 50000; END;
