-- Stores get a holder. Those of before had none: all tenants shared them. Their entries stay, and the
-- operator decides whose they are. Both tables are made anew, because a store's name alone was unique.
ALTER TABLE kv_entry RENAME TO kv_entry_7;
ALTER TABLE kv_store RENAME TO kv_store_7;

CREATE TABLE kv_store (
    id INTEGER PRIMARY KEY,
    plugin TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Scope of the tenant; an empty blob for all tenants; NULL if the operator has not decided yet.
    holder BLOB,
    -- The newest version of any entry, kept when entries go, so that no version comes twice.
    version INTEGER NOT NULL DEFAULT 0,
    -- Of all entries, those that have expired and are still there included. The triggers below keep them.
    bytes INTEGER NOT NULL DEFAULT 0,
    entries INTEGER NOT NULL DEFAULT 0,
    UNIQUE (plugin, name, holder)
) STRICT;

CREATE TABLE kv_entry (
    id INTEGER PRIMARY KEY,
    store INTEGER NOT NULL REFERENCES kv_store (id) ON DELETE CASCADE,
    -- A blob: sorted by its bytes, and a NUL is a byte like any other.
    key BLOB NOT NULL,
    version INTEGER NOT NULL,
    -- Bytes that the entry counts for.
    cost INTEGER NOT NULL,
    -- Milliseconds since 1970; the entry is there before this moment.
    expires INTEGER,
    -- Last, so that looking at the rest does not read it.
    value BLOB NOT NULL,
    UNIQUE (store, key)
) STRICT;

-- Of a store without entries there is nothing to decide.
INSERT INTO kv_store (id, plugin, name, holder, version, bytes, entries)
    SELECT id, plugin, name, NULL, version, bytes, entries FROM kv_store_7 WHERE entries > 0;
INSERT INTO kv_entry (id, store, key, version, cost, expires, value)
    SELECT id, store, key, version, cost, expires, value FROM kv_entry_7;
DROP TABLE kv_entry_7;
DROP TABLE kv_store_7;

CREATE INDEX kv_entry_expires ON kv_entry (store, expires, cost) WHERE expires IS NOT NULL;

CREATE TRIGGER kv_entry_added AFTER INSERT ON kv_entry BEGIN
    UPDATE kv_store SET bytes = bytes + new.cost, entries = entries + 1 WHERE id = new.store;
END;

CREATE TRIGGER kv_entry_changed AFTER UPDATE OF cost ON kv_entry BEGIN
    UPDATE kv_store SET bytes = bytes - old.cost + new.cost WHERE id = new.store;
END;

CREATE TRIGGER kv_entry_removed AFTER DELETE ON kv_entry BEGIN
    UPDATE kv_store SET bytes = bytes - old.cost, entries = entries - 1 WHERE id = old.store;
END;
