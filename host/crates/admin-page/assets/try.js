// Try: calls a tool through the door, with the tools and limits of a key.
import { getText } from './lib/api.js';
import { exact } from './lib/json.js';
import { pathOf, useLoad } from './lib/list.js';
import { start } from './lib/session.js';
import { Empty, Fault, Field, html, lazy, useState, visible } from './lib/ui.js';
import { KeyChoice } from './parts/key_choice.js';

const Call = lazy(() => import('./parts/call_form.js'), 'Call');

const MOST = 1000;

function Try() {
  const [key, setKey] = useState('');
  const [search, setSearch] = useState('');
  const [name, setName] = useState('');
  const found = useLoad(pathOf('/api/mcp/explain', { key, tool: search, limit: MOST }));
  const tools = (found.data?.tools ?? []).filter((tool) => tool.visible !== 'no');
  const tool = tools.find((each) => each.name === name);
  const options = [['', tools.length === 0 ? 'no tool is visible' : 'choose a tool'], ...tools.map((each) => [each.name, visible(each.name)])];
  return html`<div class="columns"><${KeyChoice} value=${key} set=${setKey} none="a request without a key" />
      <div aria-busy=${found.isBusy}><${Field} as="select" label="Tool" value=${tool ? name : ''} set=${setName} options=${options} /></div>
      ${(search !== '' || found.data?.total_count > MOST) && html`<${Field} label="Part of the name" hint=${`${found.data?.total_count} tools are there, of which ${MOST} are listed`} value=${search} set=${setSearch} />`}</div>
    <${Fault} error=${found.error} />
    ${found.data && tools.length === 0 && html`<${Empty}>This key sees no tool. <a href=${pathOf('/admin/why', { key })}>Why</a> shows what hides each of them.<//>`}
    ${tools.length > 0 && !tool && html`<${Empty}>Choose a tool: its form is shown here. Nothing is called before you say so.<//>`}
    ${tool && html`<${Chosen} key=${`${key}/${name}`} ...${{ tool, keyName: key }} />`}`;
}

/** Loads a document with the digits of its numbers: those of a schema are in the arguments. */
async function load(path) {
  return exact(await getText(path));
}

function Chosen({ tool, keyName }) {
  const { data, error, isBusy } = useLoad(pathOf('/api/mcp/clients', { search: tool.client, tools_limit: MOST }), load);
  const client = data?.clients.find((each) => each.config.name === tool.client);
  const definition = client?.tools.find((each) => each.wire_name === tool.name);
  return html`<${Fault} error=${error} /><div aria-busy=${isBusy}>${data && html`<${Call} ...${{ tool, definition, keyName }} />`}</div>`;
}

start(Try);
