-- Sums are kept by the statements that change what they add up, as in PostgreSQL, and no longer by triggers.
DROP TRIGGER kv_entry_added;
DROP TRIGGER kv_entry_changed;
DROP TRIGGER kv_entry_removed;
DROP TRIGGER response_added;
DROP TRIGGER response_removed;
DROP TRIGGER response_conversation_changed;
DROP TRIGGER response_conversation_removed;
DROP TRIGGER run_added;
DROP TRIGGER run_resized;
DROP TRIGGER run_removed;
DROP TRIGGER run_call_added;
DROP TRIGGER run_call_changed;
DROP TRIGGER recall_record_added;
DROP TRIGGER recall_record_changed;
DROP TRIGGER recall_record_removed;

-- The member `status` of the outcome, if it is a text: PostgreSQL cannot read JSON that has a NUL in it.
ALTER TABLE run ADD COLUMN status TEXT;

UPDATE run SET status = json_extract(outcome, '$.status')
WHERE json_valid(outcome) AND json_type(outcome, '$.status') = 'text';

-- Number of changes of each kind, by which other processes notice them.
CREATE TABLE airlock_revision (
    kind TEXT NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
