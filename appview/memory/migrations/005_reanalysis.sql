-- The keyword index of another analysis while it is made beside the one that answers: facts_fts_next, a table like
-- facts_fts that is there for that time only. One row at most. Facts up to `done` are in it and are kept in step by
-- whoever writes; the others are still to come. Both indexes change places in one transaction; the words of the one
-- that has answered until then are renamed to replaced_words and removed bit by bit.
CREATE TABLE reanalysis (
    version TEXT NOT NULL,     -- of the analysis that fills facts_fts_next
    done    INTEGER NOT NULL   -- the last fact that is in it
) STRICT;
