-- Calls that wait for the decision of a person, and decisions that no call has used yet.
CREATE TABLE approval (
    id TEXT NOT NULL PRIMARY KEY,
    -- Identifier of the tenant.
    scope BLOB NOT NULL,
    -- Digest of the call.
    call BLOB NOT NULL,
    -- Milliseconds since 1970.
    asked INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    -- 1 if the call may run, 0 if not, NULL while nobody has decided.
    approved INTEGER,
    -- What is shown to the person.
    text TEXT NOT NULL,
    UNIQUE (scope, call)
) STRICT;

CREATE INDEX approval_expires ON approval (expires);
