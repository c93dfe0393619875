// Why: which tools a request would see, and what hides the others.
import { pathOf, useLoad } from './lib/list.js';
import { start } from './lib/session.js';
import { Badge, Empty, Fault, Field, html, Message, Text, useState } from './lib/ui.js';
import { Curl } from './parts/curl_view.js';
import { Rows } from './parts/lists.js';
import { KeyChoice } from './parts/key_choice.js';

const EMPTY = { key: '', role: '', include_clients: '', include_tools: '', exclude_tools: '', virtual_mcp: '', tool: '' };
const SIZE = 100;

const VISIBLE = { models: ['good', 'to models'], scripts: ['good', 'to scripts'], no: ['off', 'hidden'] };

/** The question is in the address, so that it can be sent to a colleague. */
function asked() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(Object.keys(EMPTY).map((name) => [name, given.get(name) ?? '']));
}

function Why() {
  const [form, set] = useState(asked());
  const [question, ask] = useState({ ...asked(), offset: 0 });
  const field = (name, label, hint) => html`<${Field} label=${label} hint=${hint} value=${form[name]} set=${(value) => set({ ...form, [name]: value })} />`;
  const submit = (event) => {
    event.preventDefault();
    history.replaceState(null, '', pathOf(location.pathname, form));
    ask({ ...form, offset: 0 });
  };
  // A key that is chosen is asked for at once, so that what is shown is always of the key that is named.
  const choose = (key) => {
    const next = { ...form, key };
    set(next);
    history.replaceState(null, '', pathOf(location.pathname, next));
    ask({ ...next, offset: 0 });
  };
  const path = pathOf('/api/mcp/explain', { ...question, offset: question.offset || '', limit: SIZE });
  const found = useLoad(path);
  return html`<form onSubmit=${submit}>
      <div class="columns">
        <${KeyChoice} value=${form.key} set=${choose} none="a request without a key" />
        ${field('tool', 'Tool', 'A part of its name; empty for all')}
      </div>
      <details open=${Object.entries(form).some(([name, value]) => name !== 'key' && name !== 'tool' && value !== '')}><summary>Headers and path of the request</summary><div class="columns">
        ${field('role', 'Role of an access token', 'In place of a key')}
        ${field('include_clients', 'x-bf-mcp-include-clients')}
        ${field('include_tools', 'x-bf-mcp-include-tools')}
        ${field('exclude_tools', 'x-bf-mcp-exclude-tools')}
        ${field('virtual_mcp', 'Virtual MCP', 'Its slug in the path /mcp/…')}
      </div></details>
      <div class="actions"><button class="primary" type="submit">Explain</button></div>
    </form>
    <${Fault} error=${found.error} />
    <div aria-busy=${found.isBusy}>${found.data && html`<${Answer} data=${found.data} page=${(offset) => ask({ ...question, offset })} />`}</div>
    <${Curl} request=${{ method: 'GET', path }} />`;
}

function Answer({ data, page }) {
  const { offset, total_count: total } = data;
  const rows = data.tools.map((tool) => {
    const [level, word] = VISIBLE[tool.visible] ?? ['off', tool.visible];
    return [
      html`<span class="name"><${Text} value=${tool.name} /></span>`,
      html`<${Badge} level=${level}>${word}<//>`,
      tool.approval && html`<${Badge} level=${tool.approval === 'needed' ? 'wait' : 'good'}>${tool.approval === 'needed' ? 'needs an approval' : 'runs at once'}<//>`,
      html`<${Reasons} tool=${tool} />`,
    ];
  });
  const absent = data.clients.filter((client) => client.reason || client.reasons);
  return html`${data.note && html`<p class="notice warn"><${Message} value=${data.note} /></p>`}
    <p role="status">${total === 0 ? 'No tools' : `Tools ${offset + 1} to ${offset + rows.length} of ${total}`}</p>
    ${rows.length > 0 ? html`<${Rows} label="Tools" plain=${4} columns=${['Tool', 'Visible', 'Approval', 'Why']} rows=${rows} />` : html`<${Empty}>No tool has this text in its name. The servers below may not have connected.<//>`}
    <div class="actions">${offset > 0 && html`<button type="button" onClick=${() => page(Math.max(0, offset - SIZE))}>Previous</button>`}
      ${offset + SIZE < total && html`<button type="button" onClick=${() => page(offset + SIZE)}>Next</button>`}</div>
    ${data.concealed?.map((reason) => html`<p><${Message} value=${reason.message} /></p>`)}
    ${absent.length > 0 && html`<section><h2>Servers with problems</h2><${Rows} label="Servers" columns=${['Server', 'State', 'Why']}
      rows=${absent.map((client) => [html`<${Text} value=${client.name} />`, client.state, html`<${Message} value=${[client.reason, ...(client.reasons ?? []).map(({ message }) => message)].filter(Boolean).join(' ')} />`])} /></section>`}`;
}

/** The rule that decides comes first. */
function Reasons({ tool }) {
  const [first, ...others] = tool.reasons;
  if (first === undefined) return html`<${Message} value=${tool.approval_reason ?? ''} />`;
  return html`<p><${Message} value=${first.message} /></p>${others.length > 0 && html`<details><summary>${others.length} more</summary><ul>${others.map((reason) => html`<li><${Message} value=${reason.message} /></li>`)}</ul></details>`}`;
}

start(Why);
