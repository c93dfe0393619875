-- Components of plugins that operators have uploaded.
CREATE TABLE component (
    -- SHA-256 of its bytes.
    digest BLOB NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL,
    -- Number of its parts. It is complete once all of them are there.
    parts INTEGER NOT NULL,
    -- Time of its upload, or of the change since which no entry names it, in milliseconds since 1970.
    touched_ms INTEGER NOT NULL
) STRICT;

-- The bytes of a component, in parts of at most 1 MiB: each is one short change.
CREATE TABLE component_part (
    digest BLOB NOT NULL,
    number INTEGER NOT NULL,
    content BLOB NOT NULL,
    UNIQUE (digest, number)
) STRICT;

-- The entries that name a component. Those components are kept.
CREATE TABLE component_use (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE (kind, name, digest)
) STRICT;

CREATE INDEX component_use_of_digest ON component_use (digest);
