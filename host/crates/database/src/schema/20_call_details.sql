-- Memory that the guest of a call had, in bytes.
ALTER TABLE tool_log ADD COLUMN memory_bytes INTEGER;
-- The operators or the key that have approved the call; NULL if it needed no approval, or if its run has it.
ALTER TABLE tool_log ADD COLUMN decided_by TEXT;
