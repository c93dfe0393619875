// Operators: who may see and change what, and the sessions of those who have logged in with a browser.
import { Facts, useLoad } from './lib/list.js';
import { start, useOperator } from './lib/session.js';
import { Badge, Empty, Fault, Field, html, Text, useState } from './lib/ui.js';
import { Action, Check, endOf, ShownOnce } from './parts/action.js';
import { Rows, when } from './parts/lists.js';

const ROLES = [
  ['viewer', 'viewer: reads settings, states and records, without secrets'],
  ['approver', 'approver: also decides about calls that wait'],
  ['operator', 'operator: reads, and changes keys, teams and limits; reconnects servers'],
  ['admin', 'admin: everything, also operators, servers, plugins and their rights'],
];

function Operators() {
  const own = useOperator();
  const isAdmin = own?.role === 'admin';
  return html`<section><h2>You</h2>${own && html`<${Facts} rows=${[
      ['Name', html`<${Text} value=${own.name} />`],
      ['Role', ROLES.find(([role]) => role === own.role)?.[1] ?? own.role],
      ['Arguments of calls', own.sees_payloads ? 'you see them' : 'hidden from you'],
      ['Login ends', when(own.expires_at)],
    ]} />`}</section>
    ${isAdmin ? html`<${All} own=${own} /><${Sessions} />` : own && html`<${Empty}>Only an administrator sees and changes other operators.<//>`}`;
}

function All({ own }) {
  const { data, error, isBusy, reload } = useLoad('/api/operators');
  const rows = (data?.operators ?? []).map((operator) => [
    html`<${Text} value=${operator.name} />${operator.name === own.name && ' (you)'}`,
    operator.role,
    operator.sees_payloads ? html`<${Badge} level="warn">sees arguments<//>` : html`<${Badge}>arguments hidden<//>`,
    operator.source === 'file' ? 'configuration file' : when(operator.created_at),
    when(operator.expires_at) || 'never',
    operator.source === 'file' ? 'Remove it in the file' : html`<${Revoke} ...${{ operator, own, reload }} />`,
  ]);
  return html`<section aria-busy=${isBusy}><div class="toolbar"><h2>Operators</h2><${NewOperator} ...${{ own, reload }} /></div><${Fault} error=${error} />
    ${rows.length > 0 && html`<${Rows} label="Operators" plain=${3} columns=${['Name', 'Role', 'Arguments', 'Since', 'Ends', 'Action']} rows=${rows} />`}
    ${data && rows.length === 0 && html`<${Empty}>There is no operator with a token. People log in at the identity provider.<//>`}
    <p class="hint">To change a role, add the operator anew after revoking it: each gets another token.</p></section>`;
}

function NewOperator({ own, reload }) {
  const [form, set] = useState({ name: '', role: 'viewer', sees: false, ends: '' });
  const change = (field) => (value) => set({ ...form, [field]: value });
  const body = { name: form.name.trim(), role: form.role, sees_payloads: form.sees, ...(form.ends && { expires_at: endOf(form.ends) }) };
  const request = { method: 'POST', path: '/api/operators', body, faults: body.name ? [] : ['The operator needs a name'] };
  const made = ({ operator, token }) => {
    reload();
    return html`<${ShownOnce} what=${`The token of ${operator.name}`} value=${token} />`;
  };
  return html`<${Action} isPrimary needs="admin" label="Add an operator" title="Add an operator" confirm="Add the operator" request=${request} done=${made} happens="A token is made, with which this person logs in.">
    <${Field} label="Name" required value=${form.name} set=${change('name')} />
    <${Field} as="select" label="Role" value=${form.role} set=${change('role')} options=${ROLES} />
    ${own.sees_payloads ? html`<${Check} label="Sees the arguments of calls. An approver needs this to approve." value=${form.sees} set=${change('sees')} />` : html`<p class="hint">You do not see the arguments of calls, so you cannot give that right.</p>`}
    <${Field} type="date" label="Ends" hint="Not valid from this day on (UTC); empty for never" value=${form.ends} set=${change('ends')} /><//>`;
}

function Revoke({ operator, own, reload }) {
  const isOwn = operator.name === own.name;
  return html`<${Action} needs="admin" isFinal label="Revoke" confirm="Revoke" title=${`Revoke ${operator.name}`} request=${{ method: 'DELETE', path: `/api/operators/${encodeURIComponent(operator.name)}` }} done=${reload}
    happens=${`${isOwn ? 'This is you: you are logged out and cannot log in again. ' : ''}The token is refused at once, on all gateways. This cannot be taken back: a new operator gets a new token.`} />`;
}

function Sessions() {
  const { data, error, isBusy, reload } = useLoad('/api/sessions?limit=1000');
  const rows = (data?.sessions ?? []).map((session) => [
    html`<${Text} value=${session.name} />`, session.role, when(session.created_at), when(session.last_seen_at), when(session.expires_at),
    html`<${Action} needs="admin" isDanger label="End" confirm="End the session" title=${`End the session of ${session.name}`} request=${{ method: 'DELETE', path: `/api/sessions/${encodeURIComponent(session.id)}` }} done=${reload} happens="The person has to log in again at the identity provider. What was typed and not sent there is lost." />`,
  ]);
  return html`<section aria-busy=${isBusy}><h2>Browser sessions</h2><${Fault} error=${error} />
    ${rows.length > 0 ? html`<${Rows} label="Sessions" plain=${2} columns=${['Name', 'Role', 'Since', 'Last seen', 'Ends', 'Action']} rows=${rows} />` : data && html`<${Empty}>No one is logged in at an identity provider. Tokens have no sessions.<//>`}</section>`;
}

start(Operators);
