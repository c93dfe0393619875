-- Definitions of the tools of MCP servers, as the gateway first used them.
CREATE TABLE upstream_pin (
    -- Name of the client.
    client TEXT NOT NULL,
    -- Name of the tool at its server.
    tool TEXT NOT NULL,
    -- 1 if the definition was in the first list of the server; 0 if it came later and was not accepted.
    trusted INTEGER NOT NULL,
    -- The definition, as JSON.
    definition TEXT NOT NULL,
    UNIQUE (client, tool)
) STRICT;
