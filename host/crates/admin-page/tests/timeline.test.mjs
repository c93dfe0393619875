// The times of a run, and the words of a replay.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeWords } from '../assets/work/place_words.js';
import { callsPaths, executionsPath, timeline } from '../assets/work/timeline.js';

function row(id, timestamp_ms, latency, members = {}) {
  return { id, tool_name: `tool ${id}`, outcome: 'success', timestamp_ms, latency, ...members };
}

/** Returns rows as `kind@begin+length:left/width`. */
function drawn(rows) {
  return rows.map(({ kind, at, ms, left, width }) => `${kind}@${at}+${ms}:${left}/${width}`).join(' ');
}

test('calls have their places within the execution of their script', () => {
  const rows = timeline([row('s', 1_000, 100)], [row('b', 1_050, 50), row('a', 1_010, 20)], false);
  assert.equal(drawn(rows), 'script@1000+100:0/100 call@1010+20:10/20 call@1050+50:50/50');
  assert.deepEqual(timeline([], [row('a', 1, 1)], true), [], 'without an execution there is no line');
});

test('a wait lies between two executions, and a long one is drawn short', () => {
  const executions = [row('t', 1_000_000, 40), row('s', 0, 40)];
  const rows = timeline(executions, [row('a', 1_000_010, 10)], false);
  assert.equal(drawn(rows), 'script@0+40:0/44.44 wait@40+999960:44.44/11.11 script@1000000+40:55.56/44.44 call@1000010+10:66.67/11.11');
});

test('a run that waits ends with a wait that is not over', () => {
  const rows = timeline([row('s', 0, 80)], [], true);
  assert.equal(drawn(rows), 'script@0+80:0/88.89 wait@80+undefined:88.89/11.11');
});

test('a bar is never too narrow to be seen, nor outside of the line', () => {
  const calls = [row('a', 0, 0), row('b', 100_000, 0), row('late', 100_000, null)];
  for (const { left, width } of timeline([row('s', 0, 100_000)], calls, false)) {
    assert.ok(left >= 0 && width >= 0.75 && left + width <= 100, `${left} ${width}`);
  }
});

test('the rows of the log are asked for by the run, and then by its executions', () => {
  const run = { id: 'run_1', created_at_ms: 1_700_000_000_000, changed_at_ms: 1_700_000_100_000 };
  const path = new URL(executionsPath(run), 'http://gateway');
  assert.equal(path.searchParams.get('run_ids'), 'run_1');
  assert.equal(path.searchParams.get('end_time'), '2023-11-14T22:16:00.000Z');
  const executions = Array.from({ length: 17 }, (_, at) => ({ id: `c${at}` }));
  const paths = callsPaths(run, executions).map((text) => new URL(text, 'http://gateway').searchParams.get('parent_request_ids'));
  assert.deepEqual(paths.map((ids) => ids.split(',').length), [16, 1]);
  assert.deepEqual(callsPaths(run, []), []);
});

test('the first difference of a replay is named with its line', () => {
  assert.equal(placeWords({ part: 'output', line: 3 }), 'the output, line 3');
  assert.equal(placeWords({ part: 'error', line: 4 }), 'the error, at line 4 of the script');
  assert.equal(placeWords({ part: 'error', line: null }), 'the error');
  assert.equal(placeWords({ part: 'fuel', line: null }), 'the fuel');
});
