-- Logins at the authorization servers of MCP servers.
CREATE TABLE upstream_login (
    -- Name of the client.
    client TEXT NOT NULL,
    -- URL of the MCP server: a login is of no use for another one.
    server TEXT NOT NULL,
    -- Identifier of the authorization server; empty if it has none.
    issuer TEXT NOT NULL,
    -- The OAuth client to which the tokens were issued, and how it authenticates itself.
    client_id TEXT NOT NULL,
    client_secret TEXT,
    authentication TEXT NOT NULL,
    -- URL at which the tokens are refreshed, and the resource that they are for.
    token_endpoint TEXT NOT NULL,
    resource TEXT NOT NULL,
    -- Granted scopes, and those that the MCP server asked for beyond them; separated by spaces.
    scopes TEXT NOT NULL,
    wanted TEXT NOT NULL,
    access_token TEXT NOT NULL,
    refresh_token TEXT,
    -- Times in milliseconds since 1970.
    obtained_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    -- Time until which one process refreshes the tokens; 0 if none does.
    refreshing_until_ms INTEGER NOT NULL,
    UNIQUE (client, server)
) STRICT;
