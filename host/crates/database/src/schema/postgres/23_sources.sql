-- Sources of untrusted content that the author of a call had read before, as a JSON array; NULL if there is none.
ALTER TABLE tool_log ADD COLUMN sources BYTEA;
-- The same of the caller that began a run.
ALTER TABLE run ADD COLUMN sources TEXT;
-- The same of the script that made the call.
ALTER TABLE run_call ADD COLUMN sources TEXT;
