-- Tools of a script: the names in the script, and the tools that they mean. Many runs have the same.
CREATE TABLE run_tools (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    -- JSON.
    bindings TEXT NOT NULL
) STRICT;

-- Runs of scripts.
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    -- Identifier of the tenant.
    scope BLOB NOT NULL,
    -- Bytes that the run counts for, its calls included. The triggers below keep it.
    bytes INTEGER NOT NULL,
    -- Times in milliseconds since 1970.
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    -- The lease. `until_ms` is there while a process runs the script.
    epoch INTEGER NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('running', 'suspended', 'ended')),
    until_ms INTEGER,
    cancelled INTEGER NOT NULL,
    language TEXT NOT NULL,
    -- The time that the script sees, if it sees one.
    clock_ms INTEGER,
    tools INTEGER NOT NULL REFERENCES run_tools (id),
    -- JSON, once the run has ended.
    outcome TEXT,
    -- Last, so that looking at the rest does not read it.
    script TEXT NOT NULL
) STRICT;

CREATE INDEX run_scope ON run (scope, number);
CREATE INDEX run_tools_of ON run (tools);
CREATE INDEX run_changed ON run (changed_ms);

-- Calls of a run.
CREATE TABLE run_call (
    run INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
    block INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    stage TEXT NOT NULL CHECK (stage IN ('pending', 'approved', 'denied', 'sent', 'in_doubt', 'answered')),
    -- Attempts so far, the last one included.
    attempts INTEGER NOT NULL,
    -- Time at which the approval expires.
    until_ms INTEGER,
    repeatable INTEGER NOT NULL,
    tool TEXT NOT NULL,
    definition TEXT NOT NULL,
    arguments TEXT NOT NULL,
    -- JSON.
    answer TEXT,
    PRIMARY KEY (run, block, branch)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER run_call_added AFTER INSERT ON run_call BEGIN
    UPDATE run SET bytes = bytes + 256 + length(new.arguments) + length(coalesce(new.answer, '')) WHERE number = new.run;
END;

CREATE TRIGGER run_call_changed AFTER UPDATE OF answer ON run_call BEGIN
    UPDATE run SET bytes = bytes + length(coalesce(new.answer, '')) - length(coalesce(old.answer, '')) WHERE number = new.run;
END;

-- Tools that no run has any more.
CREATE TRIGGER run_removed AFTER DELETE ON run
WHEN NOT EXISTS (SELECT 1 FROM run WHERE tools = old.tools) BEGIN
    DELETE FROM run_tools WHERE id = old.tools;
END;
