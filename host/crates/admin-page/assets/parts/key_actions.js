// Actions on keys. A new value is shown once.
import { Field, html, useState } from '../lib/ui.js';
import { Action, Check, endOf, ShownOnce } from './action.js';
import { ActionDialog } from './dialog.js';
import { limitsBody, limitsForm, readTools, toolsText } from './key_form.js';
import { LimitFields } from './limit_fields.js';

const KEYS = '/api/governance/virtual-keys';
const HINT = 'One server a line: time for all of its tools, or files: read_file, list_directory for some';

/** The dialog in which a key is made. */
export function NewKey({ done, close }) {
  const [form, set] = useState({ name: '', description: '', tools: '', team_id: '', ends: '', ...limitsForm({}) });
  const change = (field) => (value) => set({ ...form, [field]: value });
  const request = () => {
    const { rows, faults } = readTools(form.tools);
    const limits = limitsBody(form);
    const body = { name: form.name.trim(), mcp_configs: rows };
    if (form.description) body.description = form.description;
    if (form.team_id) body.team_id = form.team_id.trim();
    if (form.ends) body.expires_at = endOf(form.ends);
    if (limits.body.budgets.length > 0) body.budgets = limits.body.budgets;
    if (Object.keys(limits.body.rate_limit).length > 0) body.rate_limit = limits.body.rate_limit;
    return { method: 'POST', path: KEYS, body, faults: [...(body.name ? [] : ['The key needs a name']), ...faults, ...limits.faults] };
  };
  const made = ({ virtual_key: key }) => {
    done();
    return html`<${ShownOnce} what=${`The value of ${key.name}`} value=${key.value} />`;
  };
  return html`<${ActionDialog} title="Make a key" confirm="Make the key" request=${request} done=${made} close=${close}>
    <${Field} label="Name" required value=${form.name} set=${change('name')} />
    <${Field} as="textarea" rows="3" label="Tools" hint=${HINT} value=${form.tools} set=${change('tools')} />
    <${Field} label="Team" hint="Its name; empty for none" value=${form.team_id} set=${change('team_id')} />
    <${Field} type="date" label="Ends" hint="Not valid from this day on (UTC); empty for never" value=${form.ends} set=${change('ends')} />
    <${Field} label="Description" value=${form.description} set=${change('description')} />
    <details><summary>Limits</summary><${LimitFields} ...${{ form, set }} /></details>
  <//>`;
}

export function KeyActions({ element, reload }) {
  const path = `${KEYS}/${encodeURIComponent(element.id ?? element.name)}`;
  const isActive = element.is_active !== false;
  return html`<div class="actions">
    <${ChangeTools} ...${{ element, path, reload }} />
    <${ChangeKey} ...${{ element, path, reload }} />
    <${Rotate} ...${{ element, path, reload }} />
    <${Action} isDanger=${isActive} label=${isActive ? 'Revoke' : 'Restore'} confirm=${isActive ? 'Revoke the key' : 'Restore the key'} title=${`${isActive ? 'Revoke' : 'Restore'} ${element.name}`}
      request=${{ method: 'PUT', path, body: { is_active: !isActive } }} done=${reload}
      happens=${isActive ? 'Every request with this key is refused, within a second on all gateways. The key can be restored.' : 'The key is valid again, with the value that it had. If the value has leaked, rotate the key first.'} />
    <${Action} isFinal label="Delete" confirm="Delete the key" title=${`Delete ${element.name}`} request=${{ method: 'DELETE', path }} done=${() => { location.hash = ''; }}
      happens="Every request with this key is refused at once, and its logins at servers are removed. What it has used is forgotten. A key of the configuration file has to be removed there too." />
  </div>`;
}

function Rotate({ element, path, reload }) {
  const [cooldown, set] = useState('');
  const rotated = ({ virtual_key: key }) => {
    reload();
    return html`<${ShownOnce} what=${`The new value of ${element.name}`} value=${key.value} />`;
  };
  const options = [['', 'is refused at once'], ['1h', 'stays valid for an hour'], ['1d', 'stays valid for a day'], ['7d', 'stays valid for a week']];
  return html`<${Action} needs="admin" label="Rotate" confirm="Rotate" title=${`Rotate ${element.name}`} request=${{ method: 'POST', path: `${path}/rotate`, body: cooldown === '' ? {} : { cooldown } }} done=${rotated}
    happens="The key gets a new value, which is shown once. Tools and limits stay.">
    <${Field} as="select" label="The old value" value=${cooldown} set=${set} options=${options} /><//>`;
}

/** Rows that have more than tools, such as limits of their own, are edited as JSON, so that nothing is lost. */
function ChangeTools({ element, path, reload }) {
  const rows = element.mcp_configs ?? [];
  const simple = toolsText(rows);
  const [text, set] = useState(simple ?? JSON.stringify(rows, null, 2));
  const request = () => {
    const read = simple === null ? readJson(text) : readTools(text);
    return { method: 'PUT', path, body: { mcp_configs: read.rows }, faults: read.faults };
  };
  return html`<${Action} label="Change tools" confirm="Save" title=${`Tools of ${element.name}`} request=${request} done=${reload} happens="This holds for the next request with this key, within a second on all gateways.">
    <${Field} as="textarea" rows="8" label="Tools" hint=${simple === null ? 'Rows in the form of the configuration, as JSON' : HINT} value=${text} set=${set} /><//>`;
}

function readJson(text) {
  try {
    const rows = JSON.parse(text);
    return { rows, faults: Array.isArray(rows) ? [] : ['Tools must be a list'] };
  } catch (error) {
    return { faults: [`Tools are not JSON: ${error.message}`] };
  }
}

function ChangeKey({ element, path, reload }) {
  const [form, set] = useState({ description: element.description ?? '', team_id: element.team_id ?? '', customer_id: element.customer_id ?? '', ends: (element.expires_at ?? '').slice(0, 10) });
  const [changesEnd, setChangesEnd] = useState(false);
  const change = (field) => (value) => set({ ...form, [field]: value });
  const body = { description: form.description, team_id: form.team_id, customer_id: form.customer_id, ...(changesEnd && { expires_at: endOf(form.ends) }) };
  return html`<${Action} label="Change details" confirm="Save" title=${`Details of ${element.name}`} request=${{ method: 'PUT', path, body }} done=${reload}>
    <${Field} label="Description" value=${form.description} set=${change('description')} />
    <${Field} label="Team" hint="Empty for none" value=${form.team_id} set=${change('team_id')} />
    <${Field} label="Customer" hint="Empty for none; not beside a team" value=${form.customer_id} set=${change('customer_id')} />
    <${Check} label="Change when it ends" value=${changesEnd} set=${setChangesEnd} />
    ${changesEnd && html`<${Field} type="date" label="Ends" hint="Not valid from this day on (UTC); empty for never" value=${form.ends} set=${change('ends')} />`}<//>`;
}
