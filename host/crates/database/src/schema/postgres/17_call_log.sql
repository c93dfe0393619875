-- As in version 17 of a file.

CREATE TABLE tool_log (
    id BYTEA PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    status TEXT NOT NULL,
    tool BYTEA NOT NULL,
    client BYTEA,
    origin TEXT NOT NULL,
    decision TEXT NOT NULL,
    key_id BYTEA,
    key_name BYTEA,
    team BYTEA,
    customer BYTEA,
    user_issuer BYTEA,
    user_subject BYTEA,
    parent BYTEA,
    run BYTEA,
    code BYTEA,
    duration_us BIGINT,
    cost BIGINT,
    fuel BIGINT,
    arguments_digest BYTEA,
    result_digest BYTEA,
    salt BYTEA,
    erased_ms BIGINT
);

CREATE INDEX tool_log_by_time ON tool_log (at_ms, id);
CREATE INDEX tool_log_of_key ON tool_log (key_id, at_ms);
CREATE INDEX tool_log_of_tool ON tool_log (tool, at_ms);
CREATE INDEX tool_log_of_status ON tool_log (status, at_ms);
CREATE INDEX tool_log_of_user ON tool_log (user_subject, at_ms) WHERE user_subject IS NOT NULL;

CREATE TABLE tool_log_content (
    id BYTEA PRIMARY KEY,
    arguments BYTEA,
    result BYTEA
);

CREATE TABLE model_log (
    id BYTEA PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    status TEXT NOT NULL,
    model BYTEA NOT NULL,
    provider BYTEA,
    served_model BYTEA,
    key_id BYTEA,
    key_name BYTEA,
    team BYTEA,
    customer BYTEA,
    user_issuer BYTEA,
    user_subject BYTEA,
    streamed BIGINT NOT NULL,
    code BYTEA,
    duration_us BIGINT,
    cost BIGINT,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    output_tokens BIGINT,
    reasoning_tokens BIGINT
);

CREATE INDEX model_log_by_time ON model_log (at_ms, id);
CREATE INDEX model_log_of_key ON model_log (key_id, at_ms);
CREATE INDEX model_log_of_model ON model_log (model, at_ms);
CREATE INDEX model_log_of_status ON model_log (status, at_ms);
CREATE INDEX model_log_of_user ON model_log (user_subject, at_ms) WHERE user_subject IS NOT NULL;

ALTER TABLE approval ADD COLUMN IF NOT EXISTS decided_by BYTEA;
