// The calls that run now.
import { html, Text } from '../lib/core.js';
import { Table } from '../lib/list.js';
import { span, useNow } from '../lib/load.js';
import { originWords } from './words.js';

/** A table of calls that run at this gateway, with the time for which they have run. */
export function RunningCalls({ calls }) {
  const now = useNow();
  const rows = calls.map((call) => ({
    key: call.id,
    cells: [html`<${Text} value=${call.tool} />`, html`<${Text} value=${call.key ?? 'no key'} />`, originWords(call.origin), span(now - call.started_at_ms)],
  }));
  return html`<${Table} label="Calls that run" columns=${['Tool', 'Key', 'Origin', 'For']} rows=${rows} />`;
}
