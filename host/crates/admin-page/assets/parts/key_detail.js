// One key: its state, its tools and its limits.
import { Facts, useLoad } from '../lib/list.js';
import { Badge, Block, Fault, html, Text } from '../lib/ui.js';
import { Rows, when } from './lists.js';
import { KeyActions } from './key_actions.js';
import { ChangeLimits } from './limit_fields.js';
import { Usage } from './usage.js';

const KEYS = '/api/governance/virtual-keys';

export function KeyDetail({ id }) {
  const path = `${KEYS}/${encodeURIComponent(id)}`;
  const { data, error, isBusy, reload } = useLoad(path);
  const key = data?.virtual_key;
  return html`<p><a href="#">All keys</a></p><${Fault} error=${error} /><div aria-busy=${isBusy}>${key && html`<${Detail} key=${key.name} ...${{ element: key, path, reload }} />`}</div>`;
}

function Detail({ element, path, reload }) {
  const rows = (element.mcp_configs ?? []).map((row) => [
    html`<${Text} value=${row.mcp_client_name} />`,
    html`<${Text} value=${listed(row.tools_to_execute)} />`,
    html`<${Text} value=${(row.tools_to_exclude ?? []).join(', ')} />`,
    row.rate_limit ? html`<${Block} value=${JSON.stringify(row.rate_limit)} />` : '',
  ]);
  const isOver = element.expires_at && new Date(element.expires_at) <= new Date();
  const state = element.is_active === false ? 'revoked' : isOver ? 'expired' : 'active';
  return html`<h2><${Text} value=${element.name} /></h2>
    <${KeyActions} ...${{ element, reload }} />
    <${Facts} rows=${[
      ['State', html`<${Badge} level=${{ active: 'good', expired: 'bad' }[state] ?? 'off'}>${state}<//>`],
      ['Description', element.description && html`<${Text} value=${element.description} />`],
      ['Team', element.team_id && html`<${Text} value=${element.team_id} />`],
      ['Customer', element.customer_id && html`<${Text} value=${element.customer_id} />`],
      ['Roles', element.roles?.length > 0 && html`<${Text} value=${element.roles.join(', ')} />`],
      ['Environment', element.environment && html`<${Text} value=${element.environment} />`],
      ['Approvals', element.approval],
      ['Ends', when(element.expires_at)],
      ['Old value valid until', when(element.previous_valid_until)],
      ['Bound to certificates', element.client_certificate_sha256?.length],
      ['Comes from', { file: 'the configuration file', store: 'the store', store_over_file: 'the store, in place of the configuration file' }[element.source]],
    ]} />
    <h3>Tools</h3>
    ${rows.length > 0 ? html`<${Rows} label="Tools of the key" columns=${['Server', 'May call', 'Not', 'Limit']} rows=${rows} />` : html`<p>No row of its own: it sees what its roles and servers for all keys give it.</p>`}
    <p><a href=${`/admin/why?key=${encodeURIComponent(element.name)}`}>Which tools it sees, and what hides the others</a></p>
    <p><a href=${`/admin/calls?virtual_key_ids=${encodeURIComponent(element.id ?? element.name)}`}>Calls of this key</a></p>
    <h3>Limits</h3>
    <${ChangeLimits} ...${{ element, path, reload }} />
    <${Usage} name=${element.name} member="virtual_key_id" id=${element.id ?? element.name} />`;
}

function listed(tools) {
  if (tools === undefined || tools === null || tools.length === 0) return 'none';
  return tools.includes('*') ? 'all' : tools.join(', ');
}
