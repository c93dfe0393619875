-- Stored responses of the Responses API.
CREATE TABLE response_owner (
    id INTEGER PRIMARY KEY,
    -- Identifier of the tenant.
    scope BLOB NOT NULL UNIQUE,
    -- Of all conversations, those that have expired and are still there included. The triggers below keep it.
    bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A response and all that continue it, directly or through others.
CREATE TABLE response_conversation (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL REFERENCES response_owner (id) ON DELETE CASCADE,
    bytes INTEGER NOT NULL DEFAULT 0,
    -- Milliseconds since 1970; the conversation is there before this moment.
    expires INTEGER NOT NULL
) STRICT;

CREATE INDEX response_conversation_expires ON response_conversation (expires);
CREATE INDEX response_conversation_owner ON response_conversation (owner, expires);

CREATE TABLE response (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES response_conversation (id) ON DELETE CASCADE,
    -- Response that this one continues. It may have been deleted.
    previous TEXT,
    -- Bytes that the response counts for.
    cost INTEGER NOT NULL,
    -- Last, so that looking at the rest does not read them.
    input TEXT NOT NULL,
    output TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE INDEX response_of_conversation ON response (conversation);

CREATE TRIGGER response_added AFTER INSERT ON response BEGIN
    UPDATE response_conversation SET bytes = bytes + new.cost WHERE id = new.conversation;
END;

CREATE TRIGGER response_removed AFTER DELETE ON response BEGIN
    UPDATE response_conversation SET bytes = bytes - old.cost WHERE id = old.conversation;
END;

CREATE TRIGGER response_conversation_changed AFTER UPDATE OF bytes ON response_conversation BEGIN
    UPDATE response_owner SET bytes = bytes - old.bytes + new.bytes WHERE id = new.owner;
END;

CREATE TRIGGER response_conversation_removed AFTER DELETE ON response_conversation BEGIN
    UPDATE response_owner SET bytes = bytes - old.bytes WHERE id = old.owner;
END;
