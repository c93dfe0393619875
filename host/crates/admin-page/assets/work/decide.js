// The dialogs in which a person decides: one approval, one denial, and several approvals of one tool.
import { send } from '../lib/api.js';
import { Badge, Block, Copy, Dialog, Fault, Field, html, Text, useId, useMemo, useState } from '../lib/ui.js';
import { curlLine } from '../parts/curl.js';
import { Json } from './arguments.js';
import { Effects } from './effects.js';
import { Warnings } from './warnings.js';
import { callerWords } from './words.js';

/** Most bytes of a reason. */
const MOST_REASON = 1_000;
/** Most calls that one request approves. */
export const MOST_SEVERAL = 64;

/** Returns the path of a call. Its identifier has letters, digits and `_.:-` alone. */
export function pathOfCall(id) {
  return `/v1/approvals/${id}`;
}

/** The calls that are approved together, before the script makes the first of them. It takes the first focus of the dialog, as arguments do: Enter alone approves nothing. */
export function Manifest({ lines }) {
  return html`<h3>Calls that are approved together</h3>
    <p class="hint">The script has called nothing yet. A call that is not listed, or is made more often, waits for an approval of its own. An argument with … may have any value.</p>
    <ol class="code manifest" tabindex="0" aria-label="Manifest">${lines.map((line) => html`<li><${Text} value=${line} /></li>`)}</ol>`;
}

/**
 * Approves what the dialog shows, which does not change while it is open. `done` gets the response, or the refusal of a call that
 * is not that one any more.
 */
export function Approve({ call: current, close, done }) {
  const [call] = useState(current);
  const request = { method: 'POST', path: `${pathOfCall(call.id)}/approve`, body: { shown: call.shown } };
  const left = call.approvals_required - (call.approved_by?.length ?? 0);
  return html`<${Decision} title="Approve this call?" confirm="Approve this call" ...${{ request, close, done }}>
    <p><strong class="name"><${Text} value=${call.tool} /></strong> <${Effects} effects=${call.effects} /></p>
    <p>Asked by <${Text} value=${callerWords(call)} />. It is called once with exactly this${left > 1 ? ', after another operator has approved it too' : ''}:</p>
    ${call.manifest ? html`<${Manifest} lines=${call.manifest} />` : html`<${Json} text=${call.arguments} label="Arguments" isWhole isBare />`}
    <${Warnings} call=${call} />
    <p class="hint">If the call has changed since it was shown, it is refused and nothing happens.</p><//>`;
}

/** Denies a call, with a reason that the model reads. */
export function Deny({ call, close, done }) {
  const [reason, set] = useState('');
  const bytes = new TextEncoder().encode(reason).length;
  const fault = bytes > MOST_REASON ? `It has ${bytes} bytes; at most ${MOST_REASON} are sent.` : undefined;
  const request = { method: 'POST', path: `${pathOfCall(call.id)}/deny`, body: reason.trim() === '' ? {} : { reason }, fault };
  const reader = `${call.run ? 'The script and the model read it' : 'The model reads it'}, so say what to do instead. It is in the records too.`;
  return html`<${Decision} title="Deny this call?" confirm="Deny this call" isDanger ...${{ request, close, done }}>
    <p><strong class="name"><${Text} value=${call.tool} /></strong> is not called, and its caller receives an error. This cannot be taken back; the caller may ask again.</p>
    <${Field} as="textarea" rows="3" label="Reason" hint=${reader} fault=${fault} value=${reason} set=${set} autofocus /><//>`;
}

function Decision({ title, confirm, isDanger, request, close, done, children }) {
  const [state, set] = useState({});
  const submit = (end) => async (event) => {
    event.preventDefault();
    if (request.fault) return;
    set({ isBusy: true });
    try {
      const { method, path, body } = request;
      done({ decided: await send(method, path, body), reason: body.reason });
      end();
    } catch (error) {
      if (![404, 409].includes(error.status)) return set({ error });
      done({ error });
      end();
    }
  };
  return html`<${Dialog} ...${{ title, close }}>${(end) => html`<form onSubmit=${submit(end)}>${children}
    <${Fault} error=${state.error} />
    <div class="actions"><button class=${isDanger ? 'danger' : 'primary'} disabled=${state.isBusy}>${confirm}</button><button type="button" onClick=${end}>Cancel</button></div>
    <${Curl} request=${request} /></form>`}<//>`;
}

/** The same request as a line of curl, folded. */
export function Curl({ request }) {
  const line = curlLine(location.origin, request);
  return html`<details><summary>Same request with curl</summary><${Block} value=${line} /><div class="actions"><${Copy} text=${line} /></div></details>`;
}

/**
 * Approves several calls of one tool, of which each is listed with its arguments and chosen by the person. The list does not
 * change while it is open. `done` is called after the response, with nothing about a single call.
 */
export function Several({ calls: current, close, done }) {
  const [calls] = useState(current);
  const [chosen, choose] = useState(() => new Set());
  const [state, set] = useState({});
  const change = (id) => (event) => {
    const next = new Set(chosen);
    if (event.currentTarget.checked) next.add(id);
    else next.delete(id);
    choose(next);
  };
  const body = { calls: calls.filter((call) => chosen.has(call.id)).map(({ id, shown }) => ({ id, shown })) };
  const submit = async (event) => {
    event.preventDefault();
    set({ isBusy: true });
    try {
      const { data } = await send('POST', '/v1/approvals/approve', body);
      set({ results: new Map(data.map((result) => [result.id, result])) });
      done({});
    } catch (error) {
      set({ error });
    }
  };
  const word = chosen.size === 1 ? '1 call' : `${chosen.size} calls`;
  return html`<${Dialog} isWide title=${html`${calls.length} calls of <span class="name"><${Text} value=${calls[0].tool} /></span>`} close=${close}>${(end) => html`<form onSubmit=${submit}>
    <p>Choose the calls to approve. Each of them is made once, with exactly the arguments that are listed.</p>
    <ol class="several">${calls.map((call) => html`<li key=${call.id}><${Choice} ...${{ call, isChosen: chosen.has(call.id), isFixed: Boolean(state.results), result: state.results?.get(call.id) }} change=${change(call.id)} /></li>`)}</ol>
    <${Fault} error=${state.error} />
    <div class="actions">${!state.results && html`<button class="primary" disabled=${state.isBusy || chosen.size === 0}>Approve ${word}</button>`}<button type="button" onClick=${end}>${state.results ? 'Close' : 'Cancel'}</button>
      ${!state.results && html`<button type="button" onClick=${() => choose(new Set(calls.map((call) => call.id)))}>Choose all</button>`}</div>
    ${!state.results && html`<${Curl} request=${{ method: 'POST', path: '/v1/approvals/approve', body }} />`}</form>`}<//>`;
}

function Choice({ call, isChosen, isFixed, result, change }) {
  const id = useId();
  // Long texts are laid out once, and not each time that any call is chosen.
  const shown = useMemo(() => html`<${Json} text=${call.arguments ?? ''} label=${`Arguments of ${call.id}`} isWhole isBare /><${Warnings} call=${call} />`, [call]);
  return html`<p class="check"><input id=${id} type="checkbox" checked=${isChosen} disabled=${isFixed} onChange=${change} />
      <label for=${id}><${Text} value=${callerWords(call)} /></label> <${Effects} effects=${call.effects} /> ${result && html`<${Result} result=${result} />`}</p>
    ${shown}
    <p class="hint code"><${Text} value=${call.id} /></p>`;
}

function Result({ result }) {
  if (result.error) return html`<${Badge} level="bad">not approved<//> <span class="bad"><${Text} value=${result.error.message} /></span>`;
  return result.state === 'pending' ? html`<${Badge} level="wait">needs another operator<//>` : html`<${Badge} level="good">approved<//>`;
}
