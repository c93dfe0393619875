-- Sizes of runs in bytes instead of characters, the tools of a script counted for the first run that has
-- them, and the sum of each owner.

DROP TRIGGER run_call_added;
DROP TRIGGER run_call_changed;
DROP TRIGGER run_removed;

-- Calls of a run, made anew because the order of the columns matters: what comes before a long text is read
-- without the text.
CREATE TABLE run_call_new (
    run INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
    block INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    stage TEXT NOT NULL CHECK (stage IN ('pending', 'approved', 'retried', 'denied', 'sent', 'in_doubt', 'answered')),
    -- Attempts so far, the last one included.
    attempts INTEGER NOT NULL,
    -- Time at which the approval expires.
    until_ms INTEGER,
    repeatable INTEGER NOT NULL,
    tool TEXT NOT NULL,
    definition TEXT NOT NULL,
    -- First characters of the answer.
    answer_head TEXT,
    arguments TEXT NOT NULL,
    -- JSON.
    answer TEXT,
    PRIMARY KEY (run, block, branch)
) STRICT, WITHOUT ROWID;

INSERT INTO run_call_new (run, block, branch, stage, attempts, until_ms, repeatable, tool, definition,
    answer_head, arguments, answer)
SELECT run, block, branch, stage, attempts, until_ms, repeatable, tool, definition,
    substr(answer, 1, 16), arguments, answer FROM run_call;
DROP TABLE run_call;
ALTER TABLE run_call_new RENAME TO run_call;

-- Bytes of its tools, which are part of its bytes: of all runs with the same tools, one counts them.
ALTER TABLE run ADD COLUMN tools_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE run SET tools_bytes = (SELECT octet_length(bindings) FROM run_tools WHERE id = tools)
WHERE number IN (SELECT min(number) FROM run GROUP BY tools);
UPDATE run SET bytes = 512 + tools_bytes + octet_length(script) + coalesce(octet_length(outcome), 0) + (
    SELECT coalesce(sum(256 + octet_length(arguments) + coalesce(octet_length(answer), 0)), 0)
    FROM run_call WHERE run = number);

-- Runs and bytes of each owner. The triggers below keep them.
CREATE TABLE run_owner (
    scope BLOB PRIMARY KEY,
    runs INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO run_owner (scope, runs, bytes) SELECT scope, count(*), sum(bytes) FROM run GROUP BY scope;

CREATE TRIGGER run_added AFTER INSERT ON run BEGIN
    INSERT INTO run_owner (scope, runs, bytes) VALUES (new.scope, 1, new.bytes)
    ON CONFLICT (scope) DO UPDATE SET runs = runs + 1, bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER run_resized AFTER UPDATE OF bytes ON run BEGIN
    UPDATE run_owner SET bytes = bytes + new.bytes - old.bytes WHERE scope = new.scope;
END;

CREATE TRIGGER run_removed AFTER DELETE ON run BEGIN
    UPDATE run_owner SET runs = runs - 1, bytes = bytes - old.bytes WHERE scope = old.scope;
    DELETE FROM run_owner WHERE scope = old.scope AND runs <= 0;
    -- Another run with the same tools counts them from now on. Tools that no run has any more go.
    UPDATE run SET bytes = bytes + old.tools_bytes, tools_bytes = old.tools_bytes
    WHERE old.tools_bytes > 0 AND number = (
        SELECT number FROM run WHERE tools = old.tools ORDER BY scope = old.scope DESC, number DESC LIMIT 1);
    DELETE FROM run_tools
    WHERE id = old.tools AND NOT EXISTS (SELECT 1 FROM run WHERE tools = old.tools);
END;

CREATE TRIGGER run_call_added AFTER INSERT ON run_call BEGIN
    UPDATE run SET bytes = bytes + 256 + octet_length(new.arguments) + coalesce(octet_length(new.answer), 0)
    WHERE number = new.run;
END;

CREATE TRIGGER run_call_changed AFTER UPDATE OF answer ON run_call BEGIN
    UPDATE run SET bytes = bytes + coalesce(octet_length(new.answer), 0) - coalesce(octet_length(old.answer), 0)
    WHERE number = new.run;
END;
