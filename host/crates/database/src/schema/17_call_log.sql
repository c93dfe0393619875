-- Calls of tools: one row each. The metadata stays when the contents are erased.
CREATE TABLE tool_log (
    -- Identifier of the call, a UUID of version 7.
    id TEXT NOT NULL PRIMARY KEY,
    -- Time of the decision, in milliseconds since 1970.
    at_ms INTEGER NOT NULL,
    -- `processing`, `success`, `error`, `refused` or `cancelled`.
    status TEXT NOT NULL,
    tool TEXT NOT NULL,
    -- Source of the tool; NULL for the gateway's own, and for one that does not exist.
    client TEXT,
    origin TEXT NOT NULL,
    decision TEXT NOT NULL,
    -- Identifier and name of the virtual key; NULL for a caller without one.
    key_id TEXT,
    key_name TEXT,
    team TEXT,
    customer TEXT,
    -- User of an identity provider.
    user_issuer TEXT,
    user_subject TEXT,
    -- The call that made it.
    parent TEXT,
    run TEXT,
    -- Code of the error.
    code TEXT,
    duration_us INTEGER,
    -- Millionths of a US dollar.
    cost INTEGER,
    fuel INTEGER,
    -- SHA-256 of the salt and the content.
    arguments_digest BLOB,
    result_digest BLOB,
    -- Salts of the two digests, one after the other; NULL once they are erased.
    salt BLOB,
    erased_ms INTEGER
) STRICT;

CREATE INDEX tool_log_by_time ON tool_log (at_ms, id);
CREATE INDEX tool_log_of_key ON tool_log (key_id, at_ms);
CREATE INDEX tool_log_of_tool ON tool_log (tool, at_ms);
CREATE INDEX tool_log_of_status ON tool_log (status, at_ms);
CREATE INDEX tool_log_of_user ON tool_log (user_subject, at_ms) WHERE user_subject IS NOT NULL;

-- Contents of calls, as text or sealed, if the operator wants them.
CREATE TABLE tool_log_content (
    id TEXT NOT NULL PRIMARY KEY,
    arguments BLOB,
    result BLOB
) STRICT;

-- Requests to models: one row each.
CREATE TABLE model_log (
    id TEXT NOT NULL PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    -- `success`, `error`, `refused` or `cancelled`.
    status TEXT NOT NULL,
    -- The model as the caller named it.
    model TEXT NOT NULL,
    provider TEXT,
    -- The model as the provider named it.
    served_model TEXT,
    key_id TEXT,
    key_name TEXT,
    team TEXT,
    customer TEXT,
    user_issuer TEXT,
    user_subject TEXT,
    streamed INTEGER NOT NULL,
    code TEXT,
    duration_us INTEGER,
    cost INTEGER,
    input_tokens INTEGER,
    cached_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER
) STRICT;

CREATE INDEX model_log_by_time ON model_log (at_ms, id);
CREATE INDEX model_log_of_key ON model_log (key_id, at_ms);
CREATE INDEX model_log_of_model ON model_log (model, at_ms);
CREATE INDEX model_log_of_status ON model_log (status, at_ms);
CREATE INDEX model_log_of_user ON model_log (user_subject, at_ms) WHERE user_subject IS NOT NULL;

-- The operator or the key that has decided about a call that waits.
ALTER TABLE approval ADD COLUMN decided_by TEXT;
