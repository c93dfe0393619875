-- Running gateways that others can reach.
CREATE TABLE replica (
    -- 12 hexadecimal digits, new at each start.
    id TEXT NOT NULL PRIMARY KEY,
    url TEXT NOT NULL,
    -- Time at which it was last known to run, in milliseconds since 1970.
    seen_ms INTEGER NOT NULL
) STRICT;
