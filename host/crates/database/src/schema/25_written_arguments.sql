-- Digest of the arguments of a call as its script wrote them; NULL if guards have left them as they were.
ALTER TABLE run_call ADD COLUMN written TEXT;
-- Reasons for which guards require an approval of a call of a script, as a JSON array; NULL if there is none.
ALTER TABLE run_call ADD COLUMN asked_by TEXT;
