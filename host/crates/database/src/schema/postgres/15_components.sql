-- As in version 15 of a file.

CREATE TABLE component (
    digest BYTEA PRIMARY KEY,
    bytes BIGINT NOT NULL,
    parts BIGINT NOT NULL,
    touched_ms BIGINT NOT NULL
);

CREATE TABLE component_part (
    digest BYTEA NOT NULL,
    number BIGINT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (digest, number)
);

CREATE TABLE component_use (
    kind TEXT NOT NULL,
    name BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (kind, name, digest)
);

CREATE INDEX component_use_of_digest ON component_use (digest);
