-- As in version 11 of a file. The secrets of logins are bytes already.

CREATE TABLE operator (
    id BYTEA PRIMARY KEY,
    name BYTEA NOT NULL UNIQUE,
    role BYTEA NOT NULL,
    sees_payloads BIGINT NOT NULL,
    digest BYTEA NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT
);

CREATE TABLE setting_entry (
    kind TEXT NOT NULL,
    name BYTEA NOT NULL,
    replaces BYTEA,
    document BYTEA,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE setting_change (
    id BIGINT PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    actor BYTEA NOT NULL,
    action BYTEA NOT NULL,
    kind TEXT,
    name BYTEA NOT NULL,
    has_before BIGINT NOT NULL,
    before_replaces BYTEA,
    before_document BYTEA,
    has_after BIGINT NOT NULL,
    after_replaces BYTEA,
    after_document BYTEA
);

CREATE INDEX setting_change_of_entry ON setting_change (id) WHERE kind IS NOT NULL;
