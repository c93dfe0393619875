-- As in version 12 of a file.

CREATE TABLE replica (
    id BYTEA PRIMARY KEY,
    url BYTEA NOT NULL,
    seen_ms BIGINT NOT NULL
);
