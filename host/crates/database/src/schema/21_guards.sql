-- Decisions of guards about the call that have changed something, as a JSON array; NULL if there is none.
ALTER TABLE tool_log ADD COLUMN guards TEXT;
