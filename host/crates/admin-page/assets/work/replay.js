// The check of a run by a replay.
import { send } from '../lib/api.js';
import { Block, Copy, Fault, html, useState } from '../lib/ui.js';
import { useOperator } from '../lib/session.js';
import { count } from '../lib/text.js';
import { placeWords } from './place_words.js';

const ENDED = ['completed', 'failed'];
/** Time for a replay: a script has minutes. */
const REPLAY_MS = 600_000;

/** A button that replays a run that has ended, and the result. */
export function Replay({ run }) {
  const role = useOperator()?.role;
  const [state, set] = useState({});
  if (!ENDED.includes(run.state)) return null;
  const mayReplay = role === 'operator' || role === 'admin';
  const line = `airlock replay ${run.id}`;
  const replay = async () => {
    set({ isBusy: true });
    try {
      set({ found: await send('POST', `/api/runs/${encodeURIComponent(run.id)}/replay`, undefined, { signal: AbortSignal.timeout(REPLAY_MS) }) });
    } catch (error) {
      set({ error });
    }
  };
  return html`<h3>Check by a replay</h3><p>This runs the script again with the recorded answers alone, calls nothing, and compares calls, result, output and fuel.</p>
    ${mayReplay && html`<div class="actions"><button type="button" class="primary" disabled=${state.isBusy} onClick=${replay}>Replay</button></div>`}
    <div role="status">${state.isBusy ? 'The script runs again…' : state.found && html`<${Found} ...${state.found} />`}</div>
    <${Fault} error=${state.error} />
    <details><summary>On the machine of the gateway</summary><${Block} value=${line} /><div class="actions"><${Copy} text=${line} /></div></details>`;
}

function Found({ identical, differences, first_difference: first, fuel }) {
  if (identical) return html`<p class="notice good">The replay is the same: result, output, error and fuel (${count(fuel ?? 0)} units).</p>`;
  return html`<div class="notice bad"><p>The replay is different: ${differences.join(', ')}. The first difference is in ${placeWords(first)}.</p></div>
    <h4>The run had</h4><${Block} value=${first.stored || '(nothing)'} /><h4>The replay has</h4><${Block} value=${first.derived || '(nothing)'} />`;
}
