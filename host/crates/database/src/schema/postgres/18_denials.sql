-- Reason of a denial, for the model.
ALTER TABLE approval ADD COLUMN IF NOT EXISTS reason BYTEA;
