// Teams and customers: lists, and their limits.
import { Empty, Fault, Field, html, Text, useState } from '../lib/ui.js';
import { Action } from './action.js';
import { useList } from './lists.js';
import { ChangeLimits } from './limit_fields.js';
import { Usage } from './usage.js';

const WORDS = { teams: ['team', 'A team groups keys, which share its limits.'], customers: ['customer', 'A customer groups teams and keys, which share its limits.'] };

export function Groups({ list }) {
  const [word, purpose] = WORDS[list];
  const path = `/api/governance/${list}`;
  const { data, error, isBusy, reload, controls, isSearch } = useList(path);
  const elements = data?.[list] ?? [];
  return html`<div class="toolbar">${controls}<${NewGroup} ...${{ list, word, path, reload }} /></div><${Fault} error=${error} />
    <section aria-busy=${isBusy}>${elements.map((element) => html`<${Group} key=${element.id ?? element.name} ...${{ element, list, word, path, reload }} />`)}
      ${data && elements.length === 0 && html`<${Empty}>${isSearch ? `No ${word} has this text in its name.` : `There is no ${word} yet. ${purpose}`}<//>`}</section>`;
}

function NewGroup({ list, word, path, reload }) {
  const [name, setName] = useState('');
  const [customer, setCustomer] = useState('');
  const request = () => ({ method: 'POST', path, body: { name: name.trim(), ...(customer && { customer_id: customer.trim() }) }, faults: name.trim() ? [] : [`The ${word} needs a name`] });
  return html`<${Action} isPrimary label=${`Make a ${word}`} confirm="Make it" request=${request} done=${reload}>
    <${Field} label="Name" required value=${name} set=${setName} />
    ${list === 'teams' && html`<${Field} label="Customer" hint="Its name; empty for none" value=${customer} set=${setCustomer} />`}<//>`;
}

function Group({ element, list, word, path, reload }) {
  const [isOpen, open] = useState(false);
  const own = `${path}/${encodeURIComponent(element.id ?? element.name)}`;
  const member = list === 'teams' ? 'team_id' : 'customer_id';
  return html`<details class="group" onToggle=${(event) => event.target === event.currentTarget && open(event.currentTarget.open)}><summary><${Text} value=${element.name} /> ${element.customer_id && html`<span class="hint">of <${Text} value=${element.customer_id} /></span>`}</summary>
    ${isOpen && html`<div class="actions"><${ChangeLimits} ...${{ element, path: own, reload }} />
      <${Action} isFinal label="Delete" confirm="Delete" title=${`Delete the ${word} ${element.name}`} request=${{ method: 'DELETE', path: own }} done=${reload} happens="Its limits and what was used of them are forgotten. One that keys or teams still name is not deleted." /></div>
    ${list === 'teams' && html`<p><a href=${`/admin/keys?team_id=${encodeURIComponent(element.id ?? element.name)}`}>Keys of this team</a></p>`}
    <${Usage} name=${element.name} member=${member} id=${element.id ?? element.name} />`}</details>`;
}
