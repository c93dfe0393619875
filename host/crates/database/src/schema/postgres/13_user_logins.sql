-- As in version 13 of a file.

CREATE TABLE user_login (
    client BYTEA NOT NULL,
    server BYTEA NOT NULL,
    holder BYTEA NOT NULL,
    session BYTEA NOT NULL,
    key_name BYTEA NOT NULL,
    user_issuer BYTEA NOT NULL,
    user_subject BYTEA NOT NULL,
    issuer BYTEA NOT NULL,
    client_id BYTEA NOT NULL,
    client_secret BYTEA,
    authentication BYTEA NOT NULL,
    token_endpoint BYTEA NOT NULL,
    resource BYTEA NOT NULL,
    scopes BYTEA NOT NULL,
    wanted BYTEA NOT NULL,
    access_token BYTEA NOT NULL,
    refresh_token BYTEA,
    obtained_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    refreshing_until_ms BIGINT NOT NULL,
    PRIMARY KEY (client, server, holder)
);

CREATE INDEX user_login_of_holder ON user_login (holder);

CREATE TABLE login_link (
    id BYTEA PRIMARY KEY,
    client BYTEA NOT NULL,
    server BYTEA NOT NULL,
    holder BYTEA NOT NULL,
    expires_ms BIGINT NOT NULL,
    state BYTEA UNIQUE,
    document BYTEA NOT NULL
);

CREATE INDEX login_link_of_holder ON login_link (holder);
CREATE INDEX login_link_by_expiry ON login_link (expires_ms);
