-- Counts of limits.
CREATE TABLE limit_count (
    id TEXT NOT NULL PRIMARY KEY,
    -- Time of its first use, or of its last reset, in milliseconds since 1970.
    epoch_ms INTEGER NOT NULL,
    -- Latest time at which something was taken or returned.
    seen_ms INTEGER NOT NULL,
    -- Amounts by the time at which they were taken: pairs of 8 bytes each, both big-endian.
    buckets BLOB NOT NULL,
    -- Temporary addition to the limit; null for none.
    extra INTEGER,
    -- End of the addition; null for none.
    extra_until_ms INTEGER
) STRICT;

-- Amounts that are counted for requests whose cost is not known yet.
CREATE TABLE limit_reservation (
    id TEXT NOT NULL,
    limit_id TEXT NOT NULL,
    amount INTEGER NOT NULL,
    -- The bucket that has the amount, and the epoch of the count.
    bucket_ms INTEGER NOT NULL,
    epoch_ms INTEGER NOT NULL,
    -- Time from which the amount counts as used up.
    expires_ms INTEGER NOT NULL,
    UNIQUE (id, limit_id)
) STRICT;

CREATE INDEX limit_reservation_of_limit ON limit_reservation (limit_id);
CREATE INDEX limit_reservation_by_end ON limit_reservation (expires_ms);
