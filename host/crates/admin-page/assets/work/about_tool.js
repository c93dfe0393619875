// What a server says of a tool, for a person who does not know it.
import { Block, Fault, html, Text, useState } from '../lib/ui.js';
import { get } from '../lib/api.js';
import { pathOf, useLoad } from '../lib/load.js';

const MOST = 1_000;

/** Returns the definition of a tool with the name of its server; nothing of a tool that is not there. */
async function find(tool) {
  const { tools } = await get(pathOf('/api/mcp/explain', { tool, limit: MOST }));
  const server = tools.find(({ name }) => name === tool)?.client;
  if (server === undefined) return {};
  const { clients } = await get(pathOf('/api/mcp/clients', { search: server, tools_limit: MOST }));
  return { server, ...clients.find(({ config }) => config.name === server)?.tools.find(({ wire_name: name }) => name === tool) };
}

/** The description of a tool, folded; it is loaded when it is opened. */
export function AboutTool({ tool }) {
  const [isOpen, open] = useState(false);
  return html`<details onToggle=${(event) => open(event.currentTarget.open)}><summary>What the server says of this tool</summary>${isOpen && html`<${Said} tool=${tool} />`}</details>`;
}

function Said({ tool }) {
  const { data, error, isBusy, reload } = useLoad(tool, find);
  return html`<div aria-busy=${isBusy}><${Fault} error=${error} retry=${reload} />${data && html`
    ${data.description ? html`<${Block} value=${data.description} />` : html`<p>It says nothing, or the tool is not there now.</p>`}
    ${data.server && html`<p><a href=${`/admin/servers#server=${encodeURIComponent(data.server)}`}>Server <${Text} value=${data.server} /></a></p>`}`}</div>`;
}
