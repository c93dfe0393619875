// The times of a run: executions of its script, its calls and the waits between, with their places on one line.

import { outcomeOf } from './words.js';

/** Part of the time of all executions that a wait takes on the line, at most: a person may need days. */
const WAIT_PART = 1 / 8;
/** Least width of a bar, in percent. */
const LEAST = 0.75;

/**
 * Returns the rows in the order of their begins: `{ kind, name, state, decision, fuel, id, at, ms, left, width }`, where `kind`
 * is `script`, `call` or `wait`, and `left` and `width` are percent of the line. `executions` and `calls` are rows of the call
 * log. A wait without `ms` has not ended.
 */
export function timeline(executions, calls, isWaiting) {
  const scripts = executions.map((row) => rowOf('script', row)).toSorted(byTime);
  if (scripts.length === 0) return [];
  const waits = scripts.slice(1).flatMap((script, at) => waitBetween(endOf(scripts[at]), script.at));
  if (isWaiting) waits.push({ kind: 'wait', at: endOf(scripts.at(-1)) });
  const rows = [...scripts, ...waits, ...calls.map((row) => rowOf('call', row))].toSorted(byTime);
  const busy = scripts.reduce((sum, { ms }) => sum + ms, 0);
  return placed(rows, waits, Math.max(1, busy * WAIT_PART));
}

function rowOf(kind, row) {
  const { id, tool_name: name, decision, fuel, timestamp_ms: at, latency } = row;
  return { kind, id, name, state: outcomeOf(row), decision, fuel, at, ms: Math.max(0, latency ?? 0) };
}

function waitBetween(from, to) {
  return to > from ? [{ kind: 'wait', at: from, ms: to - from }] : [];
}

function byTime(one, other) {
  return one.at - other.at || RANKS[one.kind] - RANKS[other.kind];
}

const RANKS = { wait: 0, script: 1, call: 2 };

function endOf({ at, ms }) {
  return at + (ms ?? 0);
}

/** Gives the rows their places. Of a wait, at most `most` milliseconds are drawn; one that has not ended is drawn so long. */
function placed(rows, waits, most) {
  const drawn = (time) => time - waits.reduce((sum, { at, ms = 0 }) => sum + Math.max(0, Math.min(time - at, ms) - Math.max(0, Math.min(time - at, most))), 0);
  const ends = rows.map(({ kind, at, ms }) => drawn(at) + (kind === 'wait' ? Math.min(ms ?? most, most) : drawn(at + ms) - drawn(at)));
  const begin = Math.min(...rows.map(({ at }) => drawn(at)));
  const whole = Math.max(1, Math.max(...ends) - begin);
  return rows.map((row, at) => {
    const left = Math.min(100 - LEAST, ((drawn(row.at) - begin) / whole) * 100);
    const width = Math.max(LEAST, Math.min(100 - left, ((ends[at] - drawn(row.at)) / whole) * 100));
    return { ...row, left: rounded(left), width: rounded(width) };
  });
}

function rounded(percent) {
  return Math.round(percent * 100) / 100;
}

/** Identifiers of executions in one request. */
const AT_ONCE = 16;
/** Executions whose calls are read. */
const MOST_EXECUTIONS = 64;
const MOST_CALLS = 1_000;
/** The log is searched from a day before: the run is stored only when it is first needed. */
const BEFORE_MS = 86_400_000;
const AFTER_MS = 60_000;

/** Returns the paths at which the call log has the executions of a run, and the calls of these executions. */
export function executionsPath(run) {
  return logPath({ run_ids: run.id, tool_names: 'executeToolCode', limit: MOST_EXECUTIONS }, run);
}

export function callsPaths(run, executions) {
  const ids = executions.map(({ id }) => id);
  const parts = Array.from({ length: Math.ceil(ids.length / AT_ONCE) }, (_, at) => ids.slice(at * AT_ONCE, (at + 1) * AT_ONCE));
  return parts.map((part) => logPath({ parent_request_ids: part.join(), limit: MOST_CALLS }, run));
}

function logPath(own, run) {
  const from = new Date(run.created_at_ms - BEFORE_MS).toISOString();
  const until = new Date(run.changed_at_ms + AFTER_MS).toISOString();
  return `/api/mcp-logs?${new URLSearchParams({ ...own, order: 'asc', start_time: from, end_time: until })}`;
}
