-- As in version 14 of a file.

CREATE TABLE operator_login (
    id BYTEA PRIMARY KEY,
    browser BYTEA NOT NULL,
    peer BYTEA NOT NULL,
    expires_ms BIGINT NOT NULL,
    document BYTEA NOT NULL
);

CREATE INDEX operator_login_by_expiry ON operator_login (expires_ms);
CREATE INDEX operator_login_of_peer ON operator_login (peer, expires_ms);

CREATE TABLE operator_session (
    id BYTEA PRIMARY KEY,
    digest BYTEA NOT NULL UNIQUE,
    policy BYTEA NOT NULL,
    issuer BYTEA NOT NULL,
    subject BYTEA NOT NULL,
    name BYTEA NOT NULL,
    role BYTEA NOT NULL,
    sees_payloads BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);

CREATE INDEX operator_session_of_subject ON operator_session (subject, issuer);
CREATE INDEX operator_session_by_expiry ON operator_session (expires_ms);
