// The dialog of an action.
import { send } from '../lib/api.js';
import { Dialog, Fault, html, Text, useState } from '../lib/ui.js';
import { Curl } from './curl_view.js';

/** Time for an action: the gateway waits for a server for three minutes. */
const ACTION_MS = 200_000;

/** The dialog of an action that is open already; `close` removes it. */
export function ActionDialog({ title, happens, confirm, request, done, children, isDanger, isFinal, close }) {
  const [state, set] = useState({});
  const wanted = typeof request === 'function' ? request() : request;
  const submit = (end) => async (event) => {
    event.preventDefault();
    if (wanted.faults?.length) return set({ error: { message: wanted.faults.join('; ') } });
    set({ isBusy: true });
    try {
      const shown = done(await send(wanted.method, wanted.path, wanted.body, { signal: AbortSignal.timeout(ACTION_MS) }));
      return shown ? set({ shown }) : end();
    } catch (error) {
      return set({ error });
    }
  };
  const form = (end) => html`<form onSubmit=${submit(end)}>
    ${happens && html`<p><${Text} value=${happens} /></p>`}
    ${children}
    <${Fault} error=${state.error} />
    <div class="actions"><button class=${isFinal ? 'final' : isDanger ? 'danger' : 'primary'} disabled=${state.isBusy}>${confirm}</button>
      <button type="button" autofocus=${(isDanger || isFinal) && !children} onClick=${end}>Cancel</button></div>
    <${Curl} request=${wanted} />
  </form>`;
  const shown = (end) => html`${state.shown}<div class="actions"><button type="button" onClick=${end}>Close</button></div>`;
  return html`<${Dialog} title=${html`<${Text} value=${title} />`} close=${close}>${state.shown ? shown : form}<//>`;
}
