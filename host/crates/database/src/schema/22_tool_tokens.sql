-- Estimated tokens of the gateway's tools in the request, as a JSON object; NULL if it offers none.
ALTER TABLE model_log ADD COLUMN tool_tokens TEXT;
