-- Calls that wait for an approval are few among all that runs have, and operators count them again and again.
CREATE INDEX run_call_pending ON run_call (run, block, branch) WHERE stage = 'pending';
