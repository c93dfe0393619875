-- Operators, by the digests of their tokens.
CREATE TABLE operator (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    -- 1 if it may read arguments and results of calls.
    sees_payloads INTEGER NOT NULL,
    -- SHA-256 of the token.
    digest BLOB NOT NULL,
    -- Times in milliseconds since 1970.
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER
) STRICT;

-- Settings that are added to those of the configuration file, or stand in their place.
CREATE TABLE setting_entry (
    -- `client` or `virtual_key`.
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Digest of the element of the file; NULL if the file had none with this name.
    replaces BLOB,
    -- JSON, or its sealed form; NULL if the element of the file is removed.
    document BLOB,
    changed_ms INTEGER NOT NULL,
    UNIQUE (kind, name)
) STRICT;

-- Changes of entries and operators, the newest ones.
CREATE TABLE setting_change (
    -- Counted up by the change, which needs it to seal the documents.
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    -- NULL for a change of operators.
    kind TEXT,
    name TEXT NOT NULL,
    -- 1 if there was an entry before; its columns are NULL if not.
    has_before INTEGER NOT NULL,
    before_replaces BLOB,
    before_document BLOB,
    has_after INTEGER NOT NULL,
    after_replaces BLOB,
    after_document BLOB
) STRICT;

CREATE INDEX setting_change_of_entry ON setting_change (id) WHERE kind IS NOT NULL;

-- Secrets are bytes: a sealed one is no text. The old table must not stay readable in free pages.
PRAGMA secure_delete = ON;

CREATE TABLE new_upstream_login (
    client TEXT NOT NULL,
    server TEXT NOT NULL,
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    client_secret BLOB,
    authentication TEXT NOT NULL,
    token_endpoint TEXT NOT NULL,
    resource TEXT NOT NULL,
    scopes TEXT NOT NULL,
    wanted TEXT NOT NULL,
    access_token BLOB NOT NULL,
    refresh_token BLOB,
    obtained_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    refreshing_until_ms INTEGER NOT NULL,
    UNIQUE (client, server)
) STRICT;

INSERT INTO new_upstream_login
SELECT client, server, issuer, client_id, CAST(client_secret AS BLOB), authentication, token_endpoint,
    resource, scopes, wanted, CAST(access_token AS BLOB), CAST(refresh_token AS BLOB), obtained_ms,
    expires_ms, refreshing_until_ms
FROM upstream_login;

DROP TABLE upstream_login;
ALTER TABLE new_upstream_login RENAME TO upstream_login;
