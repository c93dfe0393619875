// Servers: the sources of tools with their state, tools, history and stderr.
import { span } from './lib/list.js';
import { start, useOperator } from './lib/session.js';
import { Badge, Empty, Fault, html, lazy, Text, useEffect } from './lib/ui.js';
import { Rows, useFragment, useList } from './parts/lists.js';
import { Phase } from './parts/phase.js';

// Loaded when they are opened: the list is there sooner.
const AddServer = lazy(() => import('./parts/add_server.js'), 'AddServer');
const Server = lazy(() => import('./parts/server_detail.js'), 'Server');

/** Time between two looks at the states of the servers. */
const EVERY_MS = 10_000;

function Servers() {
  const { name, value } = useFragment();
  if (name === 'add') return html`<${AddServer} />`;
  return name === 'server' ? html`<${Server} key=${value} name=${value} />` : html`<${List} />`;
}

function List() {
  const { data, error, isBusy, reload, controls, isSearch } = useList('/api/mcp/clients', { tools_limit: 1 });
  const operator = useOperator();
  useEffect(() => {
    // The order is that of the names, so a row changes and does not move.
    const timer = setInterval(() => document.hidden || reload(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const rows = (data?.clients ?? []).map((client) => [
    html`<a href=${`#server=${encodeURIComponent(client.config.name)}`}><${Text} value=${client.config.name} /></a>`,
    html`<${Phase} client=${client} />`,
    client.config.connection_type,
    client.tools_total,
    client.quarantine?.length ? html`<${Badge} level="warn">${client.quarantine.length} changed, not accepted<//>` : '',
    client.in_flight ?? '',
    client.latency_ms ? span(client.latency_ms.p50) : '',
  ]);
  return html`<div class="toolbar">${controls}
      ${operator?.role === 'admin' && html`<button type="button" class="primary" onClick=${() => { location.hash = 'add'; }}>Add a server</button>`}</div>
    <${Fault} error=${error} />
    <section aria-busy=${isBusy}>${rows.length > 0
      ? html`<${Rows} label="Servers" plain=${3} columns=${['Name', 'State', 'Type', 'Tools', 'Definitions', 'Calls now', 'Median']} rows=${rows} />`
      : data && html`<${Empty}>${isSearch ? 'No server has this text in its name.' : 'There is no server yet. Add one: its connection is tested first, and each call of its tools needs an approval until you change that.'}<//>`}</section>`;
}

start(Servers);
