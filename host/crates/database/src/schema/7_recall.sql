-- Calls of the gateway's tools that a client does not send back, with their results.
CREATE TABLE recall_owner (
    id INTEGER PRIMARY KEY,
    -- Identifier of the tenant.
    scope BLOB NOT NULL UNIQUE,
    -- Of all records, those that have expired and are still there included. The triggers below keep both.
    bytes INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE recall_record (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL REFERENCES recall_owner (id) ON DELETE CASCADE,
    -- Milliseconds since 1970; the text is there before this moment.
    expires INTEGER NOT NULL,
    -- The record itself is there before this moment.
    ends INTEGER NOT NULL,
    -- Bytes that the record counts for.
    cost INTEGER NOT NULL,
    -- Last, so that looking at the rest does not read it. NULL if it was evicted or may not be stored.
    text TEXT
) STRICT;

CREATE INDEX recall_record_owner ON recall_record (owner, ends);
CREATE INDEX recall_record_ends ON recall_record (ends);
CREATE INDEX recall_record_expires ON recall_record (expires) WHERE text IS NOT NULL;
CREATE INDEX recall_record_text ON recall_record (owner, expires) WHERE text IS NOT NULL;

-- What a client sends back, as a digest, and the record that belongs to it.
CREATE TABLE recall_anchor (
    owner INTEGER NOT NULL REFERENCES recall_owner (id) ON DELETE CASCADE,
    anchor BLOB NOT NULL,
    record INTEGER NOT NULL REFERENCES recall_record (id) ON DELETE CASCADE,
    PRIMARY KEY (owner, anchor)
) STRICT, WITHOUT ROWID;

CREATE INDEX recall_anchor_record ON recall_anchor (record);

CREATE TRIGGER recall_record_added AFTER INSERT ON recall_record BEGIN
    UPDATE recall_owner SET bytes = bytes + new.cost, records = records + 1 WHERE id = new.owner;
END;

CREATE TRIGGER recall_record_changed AFTER UPDATE OF cost ON recall_record BEGIN
    UPDATE recall_owner SET bytes = bytes - old.cost + new.cost WHERE id = new.owner;
END;

CREATE TRIGGER recall_record_removed AFTER DELETE ON recall_record BEGIN
    UPDATE recall_owner SET bytes = bytes - old.cost, records = records - 1 WHERE id = old.owner;
END;
