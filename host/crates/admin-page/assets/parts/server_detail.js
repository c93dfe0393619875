// One server: its state, what may be done, its tools, history and stderr.
import { Facts, pathOf, span, useLoad } from '../lib/list.js';
import { useOperator } from '../lib/session.js';
import { Badge, Block, Empty, Fault, Field, html, Message, Text, useState } from '../lib/ui.js';
import { Action } from './action.js';
import { Definitions } from './definitions.js';
import { Rows, when } from './lists.js';
import { Phase } from './phase.js';
import { lines } from './server_form.js';

export function Server({ name }) {
  const { data, error, isBusy, reload } = useLoad(pathOf('/api/mcp/clients', { search: name, tools_limit: 1000 }));
  const client = data?.clients.find((found) => found.config.name === name);
  return html`<p><a href="#">All servers</a></p>
    <h2><${Text} value=${name} /> ${client && html`<${Phase} client=${client} />`}</h2>
    <${Fault} error=${error} />
    <div aria-busy=${isBusy}>${client ? html`<${Detail} ...${{ client, reload }} />` : data && html`<${Empty}>There is no server with this name. It may have been removed.<//>`}</div>`;
}

function Detail({ client, reload }) {
  const { name } = client.config;
  const path = `/api/mcp/client/${encodeURIComponent(name)}`;
  const isDisabled = client.phase === 'disabled';
  const isServer = client.config.connection_type !== 'wasm' && !isDisabled;
  return html`
    <${Actions} ...${{ client, path, isServer, isDisabled, reload }} />
    <${Facts} rows=${[
      ['Reason', !isDisabled && client.reason && html`<${Message} value=${client.reason} />`],
      ['Since', when(client.since)],
      ['Type', client.config.connection_type],
      ['Software', client.protocol?.software && html`<${Text} value=${String(client.protocol.software)} />`],
      ['Protocol', client.protocol && html`<${Text} value=${String(client.protocol.protocol_version)} />`],
      ['Calls now', client.in_flight !== undefined && `${client.in_flight} run, ${client.queued ?? 0} wait`],
      ['Latency', client.latency_ms && `median ${span(client.latency_ms.p50)}, 90 % within ${span(client.latency_ms.p90)}, 99 % within ${span(client.latency_ms.p99)}`],
      ['Restarts', client.restarts],
      ['Last failure', client.last_failure && html`<${Text} value=${client.last_failure.message} /> ${when(client.last_failure.at)}`],
    ]} />
    <${Stats} name=${name} />
    ${client.quarantine?.length > 0 && html`<${Definitions} key=${client.quarantine.join()} ...${{ client, path, reload }} />`}
    <${Tools} client=${client} />
    <${History} client=${client} />
    ${isServer && html`<${Stderr} path=${`${path}/logs`} />`}`;
}

function Actions({ client, path, isServer, isDisabled, reload }) {
  const { name } = client.config;
  const shared = { done: reload };
  return html`<div class="actions">
    ${isServer && html`<${Action} ...${shared} label="Reconnect" confirm="Reconnect" title=${`Reconnect ${name}`} request=${{ method: 'POST', path: `${path}/reconnect` }}
      happens="A new connection is opened. Calls that run on the old one fail; a process is stopped and started again." />
    <${Action} ...${shared} label="Read tools again" confirm="Read tools" title=${`Read the tools of ${name} again`} request=${{ method: 'POST', path: `${path}/refresh-tools` }}
      happens="The server is asked for its list of tools. Changed definitions wait until they are accepted." />`}
    ${!isDisabled && html`<${ToolLists} ...${{ client, path, reload }} />`}
    ${isDisabled
      ? html`<${Action} ...${shared} label="Enable" confirm="Enable" title=${`Enable ${name}`} request=${{ method: 'PUT', path, body: { disabled: false } }} happens="All gateways of the store connect to it, and its tools can be called as before." />`
      : html`<${Action} ...${shared} isDanger label="Disable" confirm="Disable" title=${`Disable ${name}`} request=${{ method: 'PUT', path, body: { disabled: true } }} happens="All gateways of the store disconnect from it at once. Its tools disappear for all keys, and calls that run fail. Its settings stay." />`}
    <${Action} isFinal label="Remove" confirm="Remove" title=${`Remove ${name}`} request=${{ method: 'DELETE', path }} done=${() => { location.hash = ''; }}
      happens="It is disconnected and its settings are deleted, on all gateways of the store. Keys keep their rows for it. The record of changes can take this back." />
  </div>`;
}

/** Changes which tools may be called, and which without an approval. */
function ToolLists({ client, path, reload }) {
  const [execute, setExecute] = useState((client.config.tools_to_execute ?? []).join('\n'));
  const [automatic, setAutomatic] = useState((client.config.tools_to_auto_execute ?? []).join('\n'));
  const body = { tools_to_execute: lines(execute), tools_to_auto_execute: lines(automatic) };
  return html`<${Action} label="Change tools" confirm="Save" title=${`Tools of ${client.config.name}`} request=${{ method: 'PUT', path, body }} done=${reload}
    happens="This holds at once, for all keys and all gateways of the store.">
    <${Field} as="textarea" rows="4" label="May be called" hint="One name a line; * is all" value=${execute} set=${setExecute} />
    <${Field} as="textarea" rows="4" label="Without an approval" hint="Each call of any other tool waits for a person. Only an administrator adds names here." value=${automatic} set=${setAutomatic} />
  <//>`;
}

function Stats({ name }) {
  const { data } = useLoad(pathOf('/api/mcp-logs/stats', { server_labels: name, period: '24h' }));
  const calls = data?.total_executions;
  return calls === undefined ? null : html`<p>In the last 24 hours: ${calls === 0 ? 'no calls' : `${calls} calls, ${Math.floor(data.success_rate)} % of them successful, ${Math.round(data.average_latency)} ms on average`}.${' '}
    <a href=${`/admin/calls?server_labels=${encodeURIComponent(name)}`}>Show calls</a></p>`;
}

function Tools({ client }) {
  const { tools = [], tools_total: total = 0 } = client;
  return html`<section><h3>Tools (${total})</h3>
    ${total === 0 && html`<${Empty}>No tools are known. They are listed once the server has connected.<//>`}
    ${tools.map((tool) => html`<${Tool} key=${tool.wire_name} ...${{ tool, config: client.config }} />`)}
    ${total > tools.length && html`<p>${total - tools.length} more are not shown.</p>`}</section>`;
}

function Tool({ tool, config }) {
  const [isOpen, open] = useState(false);
  const isListed = (list = []) => list.includes('*') || list.includes(tool.name);
  const isCallable = isListed(config.tools_to_execute) && !isListed(config.tools_to_exclude);
  const word = !isCallable ? ['off', 'not callable'] : isListed(config.tools_to_auto_execute) ? ['good', 'runs without an approval'] : ['wait', 'needs an approval'];
  return html`<details onToggle=${(event) => open(event.currentTarget.open)}><summary><${Text} value=${tool.name} /> <${Badge} level=${word[0]}>${word[1]}<//></summary>
    ${isOpen && html`<${Block} value=${tool.description} />
    <${ToolStats} name=${tool.wire_name} />
    <p>Name for models: <${Text} value=${tool.wire_name} /></p>
    ${tool.effects && html`<p>Effects: ${effectWords(tool.effects)}</p>`}
    ${tool.repairs && html`<p>Changed by the gateway: <${Text} value=${tool.repairs.join('; ')} /></p>`}
    <h4>Schema of the arguments</h4><${Block} value=${JSON.stringify(tool.parameters, null, 2)} />`}</details>`;
}

function ToolStats({ name }) {
  const { data } = useLoad(pathOf('/api/mcp-logs/stats', { tool_names: name, period: '24h' }));
  return data && html`<p>${data.total_executions} calls in the last 24 hours${data.total_executions > 0 && `, ${Math.floor(data.success_rate)} % successful`}.</p>`;
}

function effectWords(effects) {
  const words = { read_only: ['only reads', 'changes things'], destructive: ['may destroy', 'destroys nothing'], idempotent: ['can be repeated', 'not to be repeated'], open_world: ['reaches the outside', 'stays inside'] };
  const known = Object.entries(words).filter(([name]) => typeof effects[name] === 'boolean');
  return known.map(([name, [yes, no]]) => (effects[name] ? yes : no)).join(', ') || 'not stated by the server';
}

function History({ client }) {
  if (!client.history?.length) return null;
  const rows = client.history.toReversed().map((change) => [when(change.at), change.phase, html`<${Text} value=${change.reason ?? ''} />`]);
  return html`<details><summary>History (${rows.length})</summary><${Rows} label="History" columns=${['Time', 'State', 'Reason']} rows=${rows} /></details>`;
}

function Stderr({ path }) {
  const operator = useOperator();
  const mayRead = operator?.role === 'operator' || operator?.role === 'admin';
  const { data, error } = useLoad(mayRead ? path : null);
  if (!mayRead) return null;
  return html`<section><h3>Last lines on stderr</h3><${Fault} error=${error} />
    ${data && (data.lines.length > 0 ? html`<${Block} value=${data.lines.join('\n')} />` : html`<${Empty}>Nothing was written. A server over HTTP has no lines.<//>`)}</section>`;
}
