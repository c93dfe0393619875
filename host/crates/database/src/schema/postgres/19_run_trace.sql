-- Position of a run in the trace of the request that began it: a `traceparent`, and a `tracestate` if there is one.
ALTER TABLE run ADD COLUMN trace TEXT;
