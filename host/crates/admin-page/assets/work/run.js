// One run: its timeline, its script, its calls in their order with waits and approvals, how it ended, and the check by a replay.
import { getText } from '../lib/api.js';
import { member, parts } from '../lib/json.js';
import { Block, Empty, Fault, html, Text, useEffect, useRef } from '../lib/ui.js';
import { Facts, Time } from '../lib/list.js';
import { span, useLoad } from '../lib/load.js';
import { useOperator } from '../lib/session.js';
import { count } from '../lib/text.js';
import { Json, Script } from './arguments.js';
import { Replay } from './replay.js';
import { Timeline } from './timeline_view.js';
import { State } from './words.js';

/** Reads a run. The arguments of its calls stay text, because a number of the browser is not always the number that was sent. */
async function load(path) {
  const text = await getText(path);
  const run = JSON.parse(text);
  const calls = parts(member(text, 'calls') ?? '[]').map(([, call]) => ({ ...JSON.parse(call), arguments: textOf(member(call, 'arguments')) }));
  return { ...run, calls, result: member(text, 'result') };
}

/** Returns arguments as text: long ones are a string in the document. */
function textOf(json) {
  return json?.startsWith('"') ? JSON.parse(json) : (json ?? 'null');
}

/** A run by its identifier. `version` changes when it may have changed. */
export function Run({ id, version }) {
  const own = useOperator();
  const { data, error, isBusy, reload } = useLoad(own.sees_payloads ? `/api/runs/${encodeURIComponent(id)}` : null, load);
  const heading = useRef();
  useEffect(() => {
    if (version > 0) reload();
  }, [version]);
  useEffect(() => {
    if (data) heading.current?.focus();
  }, [data?.id]);
  if (!own.sees_payloads) return html`<${Empty}>A run has the arguments of calls in it. You do not see them: that needs the right <code>sees_payloads</code>.<//>`;
  return html`<p class="back"><a href="#">Close the run</a></p><div aria-busy=${isBusy && !data}><${Fault} error=${error} retry=${reload} />${data && html`<${Shown} ...${{ run: data, heading }} />`}</div>`;
}

function Shown({ run, heading }) {
  return html`<h2 ref=${heading} tabindex="-1"><span class="code"><${Text} value=${run.id} /></span> <${State} name=${run.state} /></h2>
    <${Facts} rows=${[
      ['Language', run.language], ['Begun', html`<${Time} at=${run.created_at_ms} />`],
      ['Last change', html`<${Time} at=${run.changed_at_ms} />, after ${span(run.changed_at_ms - run.created_at_ms)}`],
      ['Fuel', run.fuel !== undefined && run.fuel !== null && `${count(run.fuel)} units`],
    ]} />
    <h3>Timeline</h3><${Timeline} key=${run.changed_at_ms} run=${run} />
    <h3>Calls</h3>
    <ol class="steps"><li><span class="position">0</span> The script begins</li>
      ${run.calls.map((call) => html`<${Step} key=${call.position} run=${run} call=${call} />`)}
      <${End} run=${run} /></ol>
    <h3>Script</h3><${Script} text=${run.script ?? ''} marked=${run.error?.line ? [run.error.line] : []} mark="failed here" />
    ${run.output && html`<h3>Output</h3><${Block} value=${run.output} />`}
    ${run.result !== undefined && run.result !== 'null' && html`<h3>Result</h3><${Json} text=${textOf(run.result)} label="Result" />`}
    <${Replay} run=${run} />`;
}

function Step({ run, call }) {
  const waits = call.state === 'pending';
  return html`<li><span class="position">${call.position}</span> <strong><${Text} value=${call.tool} /></strong> <${State} name=${call.state} />
    ${call.error && html`<p class="bad"><${Text} value=${call.error.message ?? call.error.code} /></p>`}
    ${waits && html`<p><a href=${`/admin/approvals#${encodeURIComponent(`${run.id}:${call.position}`)}`}>Decide about this call</a></p>`}
    ${call.approval_expires_at_ms && html`<p class="hint">The approval expires at <${Time} at=${call.approval_expires_at_ms} />.</p>`}
    ${call.answer_kept === false && html`<p class="hint">The answer was too large to keep.</p>`}
    <details><summary>Arguments</summary><${Json} text=${call.arguments} label=${`Arguments of call ${call.position}`} /></details></li>`;
}

function End({ run }) {
  const words = {
    running: 'It runs now.', suspended: 'It waits for a person, and goes on when its caller resumes it.', interrupted: 'The process that ran it has ended. Its caller can resume it.',
    completed: 'It has completed.', failed: 'It has failed.', cancelled: 'It was cancelled.',
  };
  return html`<li><span class="position">${run.calls.length + 1}</span> ${words[run.state] ?? run.state}
    ${run.error && html`<p class="bad">${run.error.line && `Line ${run.error.line}: `}<${Text} value=${run.error.message} /></p>`}</li>`;
}
