// One call that waits: who asks, what will be sent, the script around it, and the decision.
import { Badge, Empty, Fault, html, Text, useEffect, useMemo, useRef, useState } from '../lib/ui.js';
import { Facts, Time } from '../lib/list.js';
import { about, span, useLoad, useNow } from '../lib/load.js';
import { useOperator } from '../lib/session.js';
import { Json, Script } from './arguments.js';
import { Approve, Deny, Manifest, MOST_SEVERAL, pathOfCall, Several } from './decide.js';
import { AboutTool } from './about_tool.js';
import { actorName, Definition, Effects } from './effects.js';
import { Warnings } from './warnings.js';
import { callerWords, State } from './words.js';

/** Identifiers of calls; others are not sent. */
const ID = /^[\w.:-]{1,200}$/;
const OVER = 'This call no longer waits: it was decided and used already, or has expired.';

/** A call by its identifier. `version` changes when it may have changed. `alike` are calls that wait for the same tool. */
export function WaitingCall({ id, version, alike, actions, changed }) {
  const isId = ID.test(id);
  const { data, error, isBusy, reload } = useLoad(isId ? pathOfCall(id) : null);
  const [last, keep] = useState();
  const heading = useRef();
  useEffect(() => {
    if (version > 0) reload();
  }, [version]);
  useEffect(() => {
    if (data) keep(data);
  }, [data]);
  // A call that is used is not there any more; what was shown of it stays.
  const call = data ?? (last?.id === id ? last : undefined);
  const isOver = error?.status === 404 || !isId;
  useEffect(() => {
    if (call) heading.current?.focus();
  }, [call?.id]);
  const shown = { call, isOver, alike, actions, reload, changed, heading };
  return html`<p class="back"><a href="#">All calls that wait</a></p>
    <div aria-busy=${isBusy && !call}>${call ? html`<${Call} key=${id} ...${shown} />` : isOver ? html`<h2 ref=${heading} tabindex="-1">Not there</h2><${Empty}>${OVER}<//>` : html`<${Fault} error=${error} retry=${reload} />`}</div>`;
}

function Call({ call: loaded, isOver, alike, actions, reload, changed, heading }) {
  const own = useOperator();
  const [open, setOpen] = useState();
  const [refusal, setRefusal] = useState();
  const [decided, setDecided] = useState();
  const now = useNow(5_000);
  // A decided call of a script is not listed any more, so what the decision has returned is kept.
  const call = loaded.state === 'pending' ? { ...loaded, ...decided } : loaded;
  const isExpired = (call.expires_at_ms ?? Infinity) <= now;
  const isWaiting = call.state === 'pending' && !isOver && !isExpired;
  const hasApproved = (call.approved_by ?? []).some((actor) => actorName(actor) === own.name);
  const mayApprove = isWaiting && own.sees_payloads && !hasApproved;
  const done = ({ decided: result, error, reason }) => {
    setDecided(result && { state: result.state, approved_by: result.approved_by ?? call.approved_by, denied_by: own.name, reason });
    setRefusal(error && { code: error.code, message: refusalWords(error) });
    heading.current?.focus();
    reload();
    changed();
  };
  // A long text is laid out once, and not each time that the time is looked at.
  const shown = useMemo(() => html`<${Json} text=${call.arguments ?? ''} label="Arguments" isWhole />`, [call.arguments]);
  actions.current = { approve: () => mayApprove && setOpen('approve'), deny: () => isWaiting && setOpen('deny') };
  const dialog = { call, close: () => setOpen(undefined), done };
  return html`<h2 ref=${heading} tabindex="-1"><span class="name"><${Text} value=${call.tool} /></span></h2>
    <${Fault} error=${refusal} />
    <${Outcome} ...${{ call, isOver, isExpired, hasApproved, own }} />
    <${Warnings} call=${call} />
    <${Asked} call=${call} expiry=${isWaiting && html`<${Left} at=${call.expires_at_ms} />`}
      others=${mayApprove && alike.length > 1 && html`<button type="button" class="small" onClick=${() => setOpen('several')}>Review all ${Math.min(alike.length, MOST_SEVERAL)} of this tool…</button>`} />
    ${call.manifest && html`<${Manifest} lines=${call.manifest} />`}
    <h3>${call.manifest ? 'Manifest, as it is stored' : 'Arguments, as they will be sent'}</h3>
    ${call.arguments === undefined ? html`<${Empty}>You do not see the arguments of calls. You may deny this call, and not approve it: that needs the right <code>sees_payloads</code>.<//>` : shown}
    ${!call.manifest && html`<${AboutTool} tool=${call.tool} />`}
    ${isWaiting && html`<div class="actions decide">
      ${mayApprove && html`<button type="button" class="approve" onClick=${() => setOpen('approve')}>Approve…</button>`}
      <button type="button" class="danger" onClick=${() => setOpen('deny')}>Deny…</button></div>`}
    ${call.run && html`<${Run} run=${call.run} />`}
    <h3>Record</h3><${Facts} rows=${[
      ['Asked at', html`<${Time} at=${call.created_at_ms} />`],
      ['Expires at', html`<${Time} at=${call.expires_at_ms} />`],
      ['Call', html`<span class="code"><${Text} value=${call.id} /></span>`],
      ['Digest', call.shown && html`<span class="code"><${Text} value=${call.shown} /></span><br /><span class="hint">of all that is shown; an approval is for exactly this</span>`],
    ]} />
    ${open === 'approve' && html`<${Approve} ...${dialog} />`}${open === 'deny' && html`<${Deny} ...${dialog} />`}
    ${open === 'several' && html`<${Several} ...${dialog} calls=${alike.slice(0, MOST_SEVERAL)} />`}`;
}

function refusalWords(error) {
  if (error.code === 'run_changed') return 'The call has changed since it was shown, so nothing was decided. It is shown again as it is now: read it before you decide.';
  return error.status === 404 ? OVER : error.message;
}

/** Times below which the seconds of a call are counted, and below which it is set off. */
const COUNTED_MS = 600_000;
const URGENT_MS = 60_000;

function Left({ at }) {
  const left = (at ?? Infinity) - useNow();
  if (left === Infinity) return 'never; until it is decided, the call is not made';
  return html`<span class=${left < URGENT_MS ? 'bad' : ''}>in ${left < COUNTED_MS ? span(left) : about(left)}; without a decision, the call is not made</span>`;
}

/** What has been decided so far. */
function Outcome({ call, isOver, isExpired, hasApproved }) {
  const by = (call.approved_by ?? []).map(actorName);
  const names = by.map((name, at) => html`${at > 0 && ', '}<${Text} value=${name} />`);
  if (call.state === 'approved') {
    return html`<div class="notice good" role="status"><p>Approved${by.length > 0 && html` by ${names}`}. ${call.run ? 'The script goes on when its caller resumes it.' : isOver ? 'The call has been made, or the approval has expired.' : 'The call is made when its caller repeats it.'}</p></div>`;
  }
  if (call.state === 'denied') {
    return html`<div class="notice bad" role="status"><p>Denied${call.denied_by && html` by <${Text} value=${actorName(call.denied_by)} />`}. The call is not made.</p>
      ${call.reason && html`<p>Reason: <${Text} value=${call.reason} /></p>`}</div>`;
  }
  if (isOver) return html`<div class="notice off" role="status"><p>${OVER}</p></div>`;
  if (isExpired) return html`<div class="notice off" role="status"><p>This call has expired: it was not decided in time, and is not made.</p></div>`;
  if (call.approvals_required < 2) return null;
  return html`<div class="notice wait" role="status"><p><strong>${by.length} of ${call.approvals_required} approvals.</strong> ${by.length > 0 && html`Approved by ${names}. `}
    ${hasApproved ? 'You have approved this call; another operator has to approve it too.' : 'Two operators have to approve a call of this tool.'}</p></div>`;
}

function Asked({ call, expiry, others }) {
  return html`<${Facts} rows=${[
    ['Effects', html`<${Effects} effects=${call.effects} />`],
    ['Asked by', html`<${Text} value=${callerWords(call)} />`],
    ['Arguments from', call.argument_sources && html`<${Text} value=${argumentWords(call.argument_sources)} />`],
    ['Definition', call.definition && html`<${Definition} state=${call.definition} />`],
    ['Expires', expiry],
    ['Same tool', others],
  ]} />`;
}

/** The sources that each argument of a call of a script may have. */
function argumentWords(sources) {
  const words = Object.entries(sources).map(([path, names]) => `${path || 'all arguments'}: ${names.join(', ')}`);
  return words.join('; ') || 'nothing that was read';
}

/** The script of a call, and what its run has done so far. */
function Run({ run }) {
  return html`<h3>Script${run.language && html` <${Badge}>${run.language}<//>`}</h3>
    ${run.script === undefined ? html`<p class="hint">The script has the arguments of calls in it, which you do not see.</p>` : html`<${Script} text=${run.script} marked=${run.lines} mark="names this tool" isWhole />`}
    <p><a href=${`/admin/runs#${encodeURIComponent(run.id)}`}>Show the run</a></p>
    <h3>What the run has done so far</h3>
    ${run.calls?.length > 0 ? html`<ol class="steps">${run.calls.map((step) => html`<li><span class="position">${step.position}</span> <${Text} value=${step.tool} /> <${State} name=${step.state} />
      ${step.position === run.position && html` <strong>this call</strong>`}</li>`)}</ol>` : html`<p class="hint">No calls yet.</p>`}`;
}
