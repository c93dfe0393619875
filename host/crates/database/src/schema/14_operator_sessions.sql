-- Logins of operators at an identity provider whose browsers are there.
CREATE TABLE operator_login (
    -- SHA-256 of the state of the authorization request, in hexadecimal.
    id TEXT NOT NULL PRIMARY KEY,
    -- SHA-256 of the secret of the browser.
    browser BLOB NOT NULL,
    -- SHA-256 of the address that began it.
    peer BLOB NOT NULL,
    -- Times in milliseconds since 1970.
    expires_ms INTEGER NOT NULL,
    -- What the gateway has to remember of the login, or its sealed form.
    document BLOB NOT NULL
) STRICT;

CREATE INDEX operator_login_by_expiry ON operator_login (expires_ms);
CREATE INDEX operator_login_of_peer ON operator_login (peer, expires_ms);

-- Sessions of operators who have logged in.
CREATE TABLE operator_session (
    -- Identifier for lists, which is no credential.
    id TEXT NOT NULL PRIMARY KEY,
    -- SHA-256 of the credential.
    digest BLOB NOT NULL UNIQUE,
    -- Digest of the settings that the rights follow from.
    policy BLOB NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    -- Name for people.
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    -- 1 if it may read arguments and results of calls.
    sees_payloads INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    -- Time of the last request, to the minute.
    seen_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX operator_session_of_subject ON operator_session (subject, issuer);
CREATE INDEX operator_session_by_expiry ON operator_session (expires_ms);
