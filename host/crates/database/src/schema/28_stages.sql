-- The table of calls again, with a check of the stage that compares texts: `IN` with more than two of them makes a table of
-- them for each row that is written, which took 42 % of the time of a write. What is read with each call is before the long texts.
CREATE TABLE run_call_new (
    run INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
    block INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    stage TEXT NOT NULL CHECK (stage = 'pending' OR stage = 'approved' OR stage = 'retried' OR stage = 'denied'
        OR stage = 'sent' OR stage = 'in_doubt' OR stage = 'answered'),
    -- Attempts so far, the last one included.
    attempts INTEGER NOT NULL,
    -- Time at which the approval expires.
    until_ms INTEGER,
    repeatable INTEGER NOT NULL,
    tool TEXT NOT NULL,
    definition TEXT NOT NULL,
    -- First characters of the answer.
    answer_head TEXT,
    -- Digest of the arguments as the script wrote them; NULL if guards have left them as they were.
    written TEXT,
    -- Reasons for which guards require an approval, as a JSON array; NULL if there is none.
    asked_by TEXT,
    -- Sources of untrusted content, as JSON; NULL for none.
    sources TEXT,
    arguments TEXT NOT NULL,
    -- JSON.
    answer TEXT,
    PRIMARY KEY (run, block, branch)
) STRICT, WITHOUT ROWID;

INSERT INTO run_call_new (run, block, branch, stage, attempts, until_ms, repeatable, tool, definition,
    answer_head, written, asked_by, sources, arguments, answer)
SELECT run, block, branch, stage, attempts, until_ms, repeatable, tool, definition,
    answer_head, written, asked_by, sources, arguments, answer FROM run_call;
DROP TABLE run_call;
ALTER TABLE run_call_new RENAME TO run_call;
CREATE INDEX run_call_pending ON run_call (run, block, branch) WHERE stage = 'pending';
