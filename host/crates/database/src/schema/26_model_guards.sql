-- Decisions of guards about the request or its response that have changed something, as a JSON array; NULL if there is none.
ALTER TABLE model_log ADD COLUMN guards TEXT;
