-- As in version 24 of a file.
DROP INDEX tool_log_of_key;
DROP INDEX tool_log_of_status;
CREATE INDEX tool_log_of_key ON tool_log (key_id, at_ms) WHERE key_id IS NOT NULL;
CREATE INDEX tool_log_of_status ON tool_log (status, at_ms) WHERE status <> 'success';
DROP INDEX model_log_of_key;
DROP INDEX model_log_of_status;
CREATE INDEX model_log_of_key ON model_log (key_id, at_ms) WHERE key_id IS NOT NULL;
CREATE INDEX model_log_of_status ON model_log (status, at_ms) WHERE status <> 'success';
