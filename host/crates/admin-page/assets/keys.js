// Keys, with teams, customers and limits: lists, and what each may use.
import { start, useOperator } from './lib/session.js';
import { Badge, Empty, Fault, html, lazy, Text, useState } from './lib/ui.js';
import { Rows, useFragment, useList, when } from './parts/lists.js';

const VIEWS = [['', 'Keys'], ['teams', 'Teams'], ['customers', 'Customers'], ['limits', 'Limits']];

// Loaded when they are opened: the list is there sooner.
const KeyDetail = lazy(() => import('./parts/key_detail.js'), 'KeyDetail');
const NewKey = lazy(() => import('./parts/key_actions.js'), 'NewKey', 'dialog.css');
const Groups = lazy(() => import('./parts/groups.js'), 'Groups');
const Limits = lazy(() => import('./parts/usage.js'), 'Limits');

function Keys() {
  const { name, value } = useFragment();
  return html`<nav aria-label="Parts of this page"><ul class="tabs">${VIEWS.map(([view, words]) => html`<li><a href=${`#${view}`} aria-current=${name === view ? 'true' : undefined}>${words}</a></li>`)}</ul></nav>
    <${View} ...${{ name, value }} />`;
}

function View({ name, value }) {
  switch (name) {
    case 'key':
      return html`<${KeyDetail} id=${value} />`;
    case 'teams':
    case 'customers':
      return html`<${Groups} key=${name} list=${name} />`;
    case 'limits':
      return html`<${Limits} />`;
    default:
      return html`<${List} />`;
  }
}

function List() {
  const operator = useOperator();
  const [isMaking, make] = useState(false);
  const team = new URLSearchParams(location.search).get('team_id') ?? '';
  const { data, error, isBusy, reload, controls, isSearch } = useList('/api/governance/virtual-keys', { team_id: team });
  const rows = (data?.virtual_keys ?? []).map((key) => [
    html`<a href=${`#key=${encodeURIComponent(key.id ?? key.name)}`}><${Text} value=${key.name} /></a>`,
    html`<${KeyState} ...${{ row: key }} />`,
    key.team_id || key.customer_id ? html`<${Text} value=${key.team_id ?? key.customer_id} />` : '',
    html`<${Text} value=${(key.mcp_configs ?? []).map((row) => row.mcp_client_name).join(', ') || (key.roles?.length ? `role ${key.roles.join(', ')}` : 'none of its own')} />`,
    when(key.expires_at),
  ]);
  return html`<div class="toolbar">${controls}
      ${['operator', 'admin'].includes(operator?.role) && html`<button type="button" class="primary" onClick=${() => make(true)}>Make a key…</button>`}</div>
    ${isMaking && html`<${NewKey} done=${reload} close=${() => make(false)} />`}
    <${Fault} error=${error} />
    <section aria-busy=${isBusy}>${rows.length > 0
      ? html`<${Rows} label="Keys" plain=${3} columns=${['Name', 'State', 'Team or customer', 'Servers', 'Ends']} rows=${rows} />`
      : data && html`<${Empty}>${isSearch ? 'No key has this text in its name.' : 'There is no key yet. Make one for each agent or person: it says which tools they may use, and how much.'}<//>`}</section>`;
}

function KeyState({ row }) {
  const isOver = row.expires_at && new Date(row.expires_at) <= new Date();
  const [level, word] = row.is_active === false ? ['off', 'revoked'] : isOver ? ['bad', 'expired'] : ['good', 'active'];
  return html`<${Badge} level=${level}>${word}<//>`;
}

start(Keys);
