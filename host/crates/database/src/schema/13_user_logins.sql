-- Logins of single users at the authorization servers of MCP servers.
CREATE TABLE user_login (
    -- As in `upstream_login`.
    client TEXT NOT NULL,
    server TEXT NOT NULL,
    -- Digest of the tenant that the login is for, in hexadecimal.
    holder TEXT NOT NULL,
    -- Identifies the login among those that the holder had before; renewals keep it.
    session TEXT NOT NULL,
    -- Name of the virtual key of the holder.
    key_name TEXT NOT NULL,
    -- Issuer and subject of the access tokens of the holder; empty if its virtual key is its credential.
    user_issuer TEXT NOT NULL,
    user_subject TEXT NOT NULL,
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    client_secret BLOB,
    authentication TEXT NOT NULL,
    token_endpoint TEXT NOT NULL,
    resource TEXT NOT NULL,
    scopes TEXT NOT NULL,
    wanted TEXT NOT NULL,
    -- Empty once the authorization server has refused to renew the login.
    access_token BLOB NOT NULL,
    refresh_token BLOB,
    obtained_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    refreshing_until_ms INTEGER NOT NULL,
    UNIQUE (client, server, holder)
) STRICT;

CREATE INDEX user_login_of_holder ON user_login (holder);

-- Links by which users log in, until they have or the link expires.
CREATE TABLE login_link (
    -- SHA-256 of the identifier in the link, in hexadecimal.
    id TEXT NOT NULL PRIMARY KEY,
    client TEXT NOT NULL,
    server TEXT NOT NULL,
    holder TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    -- SHA-256 of the state of the authorization request, in hexadecimal; NULL before there is one.
    state TEXT UNIQUE,
    -- What the gateway has to remember of the login, or its sealed form.
    document BLOB NOT NULL
) STRICT;

CREATE INDEX login_link_of_holder ON login_link (holder);
CREATE INDEX login_link_by_expiry ON login_link (expires_ms);
