-- As in version 16 of a file.

CREATE TABLE limit_count (
    id BYTEA PRIMARY KEY,
    epoch_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    buckets BYTEA NOT NULL,
    extra BIGINT,
    extra_until_ms BIGINT
);

CREATE TABLE limit_reservation (
    id BYTEA NOT NULL,
    limit_id BYTEA NOT NULL,
    amount BIGINT NOT NULL,
    bucket_ms BIGINT NOT NULL,
    epoch_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    PRIMARY KEY (id, limit_id)
);

CREATE INDEX limit_reservation_of_limit ON limit_reservation (limit_id);
CREATE INDEX limit_reservation_by_end ON limit_reservation (expires_ms);
