// The form of a new server, with a dry connection before it is saved.
import { send } from '../lib/api.js';
import { Badge, Block, Fault, Field, html, Text, useRef, useState } from '../lib/ui.js';
import { Curl } from './curl_view.js';
import { clientBody, EMPTY, KINDS } from './server_form.js';

export function AddServer() {
  const [form, set] = useState(EMPTY);
  const [state, setState] = useState({});
  const result = useRef();
  const { body, faults } = clientBody(form);
  const text = JSON.stringify(body);
  const change = (field) => (value) => set({ ...form, [field]: value });
  const faultOf = (field) => (state.isChecked ? faults.find((fault) => fault.field === field)?.message : undefined);
  const field = (name, label, more = {}) => html`<${Field} label=${label} value=${form[name]} set=${change(name)} fault=${faultOf(name)} ...${more} />`;
  const act = (path, after) => async () => {
    setState({ ...state, isChecked: true });
    if (faults.length > 0) return;
    setState({ isChecked: true, busy: path === DRY ? 'Connecting, for at most 60 seconds' : 'Saving and connecting' });
    try {
      after(await send('POST', path, body));
    } catch (error) {
      setState({ isChecked: true, error });
    }
    result.current?.focus();
  };
  const test = act(DRY, (found) => setState({ isChecked: true, found, tested: text }));
  const save = act('/api/mcp/client', (saved) => {
    if (saved.status === 'pending_oauth') return setState({ isChecked: true, saved });
    location.hash = `server=${encodeURIComponent(body.name)}`;
    return undefined;
  });
  const isTested = state.tested === text;
  return html`<p><a href="#">All servers</a></p><h2>Add a server</h2><p>Test the connection, look at the tools, then save. Nothing is stored before.</p>
    <form onSubmit=${(event) => { event.preventDefault(); (isTested ? save : test)(); }}>
      ${field('name', 'Name', { hint: 'Tools are named after it, such as time-get_current_time' })}
      ${field('kind', 'Type', { as: 'select', options: KINDS })}
      ${form.kind === 'stdio'
        ? html`${field('command', 'Command', { hint: 'A program on the machine of the gateway, with the rights of its user' })}
          ${field('args', 'Arguments', { as: 'textarea', rows: 3, hint: 'One a line' })}
          ${field('envs', 'Environment', { as: 'textarea', rows: 2, hint: 'One NAME=value a line; write a secret as NAME=env.VARIABLE' })}`
        : html`${field('url', 'URL', { type: 'url', hint: 'Such as https://mcp.example.com/mcp' })}
          ${field('headers', 'Headers', { as: 'textarea', rows: 2, hint: 'One a line; write a secret as authorization: env.VARIABLE' })}`}
      ${field('tools', 'Tools that may be called', { as: 'textarea', rows: 2, hint: 'One name a line; * is all. Each call needs an approval until you change that on the page of the server' })}
      <p class="hint">A key sees these tools once <a href="/admin/keys">its list of tools</a> has this server.</p>
      <div class="actions"><button type="button" class=${isTested ? '' : 'primary'} disabled=${state.busy} onClick=${test}>Test connection</button>
        ${isTested && html`<button class="primary" type="submit" disabled=${state.busy}>Save</button>`}</div>
    </form>
    <p role="status">${state.busy}</p>
    <div ref=${result} tabindex="-1"><${Fault} error=${state.error} />
      ${isTested && html`<${Found} found=${state.found} />`}
      ${state.saved && html`<p role="status">Saved. It needs a login before it can be used: <${Text} value=${state.saved.message} /></p>`}</div>
    ${faults.length === 0 && html`<${Curl} request=${{ method: 'POST', path: isTested ? '/api/mcp/client' : DRY, body }} />`}`;
}

const DRY = '/api/mcp/clients/dry-run';

function Found({ found }) {
  const { tools = [], server } = found;
  return html`<section><h3>${found.state === 'connected' ? html`<${Badge} level="good">connected<//> Found ${tools.length === 1 ? '1 tool' : `${tools.length} tools`}` : html`<${Badge} level="bad">did not connect<//>`}</h3>
    ${server && html`<p>The server names itself <${Text} value=${`${server.name ?? ''} ${server.version ?? ''}`} />. Nothing is stored yet.</p>`}
    ${found.reason && html`<p role="alert"><${Text} value=${found.reason} /></p><p>Correct the form and test again. If the server only needs a login, save it: the login comes after.</p>`}
    ${tools.map((tool) => html`<details><summary><${Text} value=${tool.name} /></summary>${tool.left_out_bytes !== undefined ? html`<p>Its description and schema are not shown: they have ${tool.left_out_bytes} bytes.</p>` : html`<${Block} value=${tool.description ?? ''} /><${Block} value=${JSON.stringify(tool.input_schema, null, 2)} />`}</details>`)}
    ${found.stderr?.length > 0 && html`<h4>Last lines on stderr</h4><${Block} value=${[found.stderr].flat().join('\n')} />`}</section>`;
}
