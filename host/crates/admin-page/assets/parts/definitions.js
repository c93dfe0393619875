// The changed definitions of a server: what differs from what was accepted, and the acceptance of what is shown.
import { pathOf, useLoad } from '../lib/list.js';
import { Badge, Block, Fault, html, Text, useState, visible } from '../lib/ui.js';
import { Action } from './action.js';
import { acceptable, changeLine, changeWords } from './change_lines.js';

/** Changes on one page. */
const ROWS = 20;

export function Definitions({ client, path, reload }) {
  const [offset, setOffset] = useState(0);
  const found = useLoad(pathOf(`${path}/definitions`, { limit: ROWS, offset: offset || '' }));
  const { data, error, isBusy } = found;
  const { name } = client.config;
  const done = () => {
    setOffset(0);
    found.reload();
    reload();
  };
  const names = acceptable(data?.changes ?? []);
  return html`<section class="notice"><h3>Changed definitions</h3>
    <p>The server sends other definitions of these tools than those that were accepted. Read the differences: what is accepted is what is shown here, and nothing is if it changes meanwhile.</p>
    <${Fault} error=${error} retry=${found.reload} />
    <div aria-busy=${isBusy && !data}>${data?.reason && html`<p class="bad">The accepted definitions cannot be read: <${Text} value=${data.reason} /></p>`}
      ${data?.changes.map((change) => html`<${Change} key=${change.tool} ...${{ change, data, path, done }} />`)}</div>
    <div class="actions">${offset > 0 && html`<button type="button" onClick=${() => setOffset(Math.max(0, offset - ROWS))}>Previous changes</button>`}
      ${data && offset + ROWS < data.total_count && html`<button type="button" onClick=${() => setOffset(offset + ROWS)}>Next changes</button>`}
      ${names.length > 1 && html`<${Accept} label=${`Accept these ${names.length}`} ...${{ data, path, done, names }} />`}
      <button type="button" onClick=${found.reload}>Compare again</button></div>
    <details><summary>On the machine of the gateway</summary><${Block} value=${`airlock upstream diff ${name}\nairlock upstream accept ${name}`} /></details></section>`;
}

function Change({ change, data, path, done }) {
  const { tool, kind, was, diff, hidden } = change;
  return html`<article class="group"><h4><${Text} value=${tool} /> <${Badge} level="warn">${kind}<//></h4>
    <p>${was && html`Accepted as <${Text} value=${was} />. `}${changeWords(change)}</p>
    ${diff.length > 0 && html`<div class="diff"><div class="scroll" tabindex="0" role="region" aria-label=${`Differences of ${visible(tool)}`}><ol>${diff.map(changeLine).map(Line)}</ol></div></div>`}
    ${hidden > 0 ? html`<p class="bad">${hidden} more lines are not shown, so it cannot be accepted here. Read them with <code>airlock upstream diff</code>.</p>` : html`<div class="actions"><${Accept} label="Accept" ...${{ data, path, done, names: [tool] }} /></div>`}</article>`;
}

function Line({ kind, text }) {
  if (kind === 'place') return html`<li><span class="word"></span><strong><${Text} value=${text} /></strong></li>`;
  return html`<li class=${kind}><span class="word">${kind === 'same' ? '' : kind}</span><span><${Text} value=${text} /></span></li>`;
}

function Accept({ label, data, path, done, names }) {
  const what = names.length === 1 ? names[0] : `${names.length} tools`;
  return html`<${Action} label=${label} confirm="Accept" needs="admin" title=${`Accept ${what} of ${data.client}`} request=${{ method: 'POST', path: `${path}/definitions/accept`, body: { review: data.review, tools: names } }} done=${done}
    happens="The definitions that are shown are written to airlock.lock of this gateway. Models see them at once, and a new tool runs without an approval where the settings say so." />`;
}
