// The timeline of a run: a list with a bar for each execution, call and wait.
import { get } from '../lib/api.js';
import { Empty, Fault, html, Text } from '../lib/ui.js';
import { Time } from '../lib/list.js';
import { span, useLoad } from '../lib/load.js';
import { count } from '../lib/text.js';
import { callsPaths, executionsPath, timeline } from './timeline.js';
import { State } from './words.js';

const MOST_ROWS = 500;
const DECISIONS = { person: 'approved by a person', caller: 'approved by its caller', enclosing: 'approved with the script' };
const BARS = { success: 'good', processing: 'wait', paused: 'wait', refused: 'warn' };

/** Reads the rows of the call log about a run. */
async function load(path, run) {
  const executions = (await get(path)).logs;
  const lists = await Promise.all(callsPaths(run, executions).map((calls) => get(calls)));
  const total = lists.reduce((sum, { pagination }) => sum + pagination.total_count, 0);
  const calls = lists.flatMap(({ logs }) => logs);
  return { executions, calls, more: Math.max(0, total - calls.length) };
}

/** The timeline of a run. */
export function Timeline({ run }) {
  const { data, error, isBusy, reload } = useLoad(executionsPath(run), (path) => load(path, run));
  return html`<div aria-busy=${isBusy && !data}><${Fault} error=${error} retry=${reload} />${data && html`<${Rows} ...${data} run=${run} />`}</div>`;
}

function Rows({ executions, calls, more, run }) {
  const rows = timeline(executions, calls, run.state === 'suspended');
  if (rows.length === 0) return html`<${Empty}>The call log has no execution of this run: it is off, its rows have been removed, or the script runs for the first time now.<//>`;
  const hidden = more + Math.max(0, rows.length - MOST_ROWS);
  return html`<ol class="steps times" aria-label="Times of the run">${rows.slice(0, MOST_ROWS).map((row) => html`<${Row} key=${`${row.kind}${row.id ?? row.at}`} row=${row} begin=${rows[0].at} />`)}</ol>
    ${rows.some(({ kind }) => kind === 'wait') && html`<p class="hint">Long waits are drawn shorter than they were.</p>`}
    ${hidden > 0 && html`<p class="hint">${count(hidden)} more rows are not shown.</p>`}`;
}

function Row({ row, begin }) {
  return html`<li><${Name} row=${row} /> ${row.state && html`<${State} name=${row.state} />`}
    <${Bar} ...${row} />
    <p class="hint">${row.at === begin ? html`began at <${Time} at=${row.at} />` : `after ${span(row.at - begin)}`}${row.ms === undefined ? ', not over' : `, ${span(row.ms)} long`}${DECISIONS[row.decision] && `, ${DECISIONS[row.decision]}`}${row.fuel && `, ${count(row.fuel)} units of fuel`}</p></li>`;
}

function Name({ row }) {
  if (row.kind === 'wait') return html`<strong>Waits for a person, or for its caller</strong>`;
  return html`<a href=${`/admin/calls#${encodeURIComponent(row.id)}`}>${row.kind === 'script' ? 'The script runs' : html`<${Text} value=${row.name} />`}</a>`;
}

/** The place of a row on the line; the text beside it says the same. */
function Bar({ kind, state, left, width }) {
  const level = kind === 'wait' ? 'wait' : kind === 'script' ? 'own' : (BARS[state] ?? 'bad');
  return html`<svg class=${`bar ${level}`} viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect x=${left} y="0" width=${width} height="1" /></svg>`;
}
