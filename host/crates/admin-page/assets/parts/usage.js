// How much of the limits is used, with overrides and resets of budgets.
import { useLoad } from '../lib/list.js';
import { Badge, Empty, Fault, Field, html, Text, useState } from '../lib/ui.js';
import { Action } from './action.js';
import { useList, when } from './lists.js';
import { budgetRow, ownerOf, rateRows, readAmount } from './amounts.js';

const LEVELS = { low: 'good', near: 'warn', full: 'bad', unknown: 'off' };
/** By member of a limit: the path of its owner. */
const OWNERS = { virtual_key_id: 'virtual-keys', team_id: 'teams', customer_id: 'customers' };

/** All limits of all owners. */
export function Limits() {
  const budgets = useList('/api/governance/budgets');
  const rates = useList('/api/governance/rate-limits');
  return html`<h2>Money</h2>${budgets.controls}<${Fault} error=${budgets.error} />
    <section aria-busy=${budgets.isBusy}><${Budgets} budgets=${budgets.data?.budgets} reload=${budgets.reload} isNamed /></section>
    <h2>Calls, requests and tokens</h2>${rates.controls}<${Fault} error=${rates.error} />
    <section aria-busy=${rates.isBusy}><${Rates} limits=${rates.data?.rate_limits} isNamed /></section>`;
}

/** The limits of one owner, which has the identifier in the member, such as `virtual_key_id`. */
export function Usage({ name, member, id }) {
  const search = `?limit=1000&search=${encodeURIComponent(name)}`;
  const budgets = useLoad(`/api/governance/budgets${search}`);
  const rates = useLoad(`/api/governance/rate-limits${search}`);
  const isOwn = (limit) => limit[member] === id;
  return html`<${Fault} error=${budgets.error ?? rates.error} /><div aria-busy=${budgets.isBusy || rates.isBusy}>
    <${Budgets} budgets=${budgets.data?.budgets.filter(isOwn)} reload=${budgets.reload} />
    <${Rates} limits=${rates.data?.rate_limits.filter(isOwn)} /></div>`;
}

function Budgets({ budgets, reload, isNamed }) {
  if (budgets?.length === 0) return isNamed ? html`<${Empty}>There is no budget. Set one at a key, a team or a customer.<//>` : null;
  return budgets?.map((budget) => html`<${Bar} key=${budget.id} row=${budgetRow(budget)} owner=${isNamed && ownerOf(budget)}><${BudgetActions} ...${{ budget, reload }} /><//>`);
}

function Rates({ limits, isNamed }) {
  if (limits?.length === 0) return html`<${Empty}>There is no limit of calls, requests or tokens${isNamed ? '. Set one at a key, a team or a customer.' : ' here.'}<//>`;
  return limits?.map((limit) => rateRows(limit).map((row) => html`<${Bar} row=${row} owner=${(isNamed || ownerOf(limit).scope) && ownerOf(limit)} />`));
}

function Bar({ row, owner, children }) {
  const what = owner ? `${owner.kind} ${owner.name}${owner.scope && ` (${owner.scope})`}: ${row.what}` : row.what;
  return html`<div class="usage"><div><strong><${Text} value=${what} /></strong> ${row.window && html`<span class="hint">in ${row.window}</span>`} <${Badge} level=${LEVELS[row.level]}>${row.word}<//></div>
    <progress class=${row.level} max="100" value=${row.percent} aria-label=${`${row.percent} % used`}></progress>
    <p>${row.used} of ${row.most} used (${row.percent} %)${row.reserved && `, ${row.reserved} of requests that run`}${row.raise && `, raised by ${row.raise}`}${row.raiseEnds && html` until ${when(row.raiseEnds)}`}${row.reset && html`. New window: ${when(row.reset)}`}</p>${children}</div>`;
}

function BudgetActions({ budget, reload }) {
  const [member, list] = Object.entries(OWNERS).find(([name]) => budget[name] !== undefined) ?? [];
  if (list === undefined) return null;
  const owner = `/api/governance/${list}/${encodeURIComponent(budget[member])}`;
  const path = `${owner}/budgets/${encodeURIComponent(budget.id)}/override`;
  const name = budget.owner_name ?? budget[member];
  return html`<div class="actions"><${Raise} ...${{ budget, name, path, reload }} />
    ${budget.override_amount !== undefined && html`<${Action} label="Remove the raise" confirm="Remove" title=${`Remove the raise of ${name}`} request=${{ method: 'DELETE', path }} done=${reload} happens="The budget is its own amount again, at once." />`}
    <${Action} isDanger label="Reset" confirm="Reset" title=${`Reset the budgets of ${name}`} request=${{ method: 'PUT', path: owner, body: { reset_budget_usage: true } }} done=${reload}
      happens="What was spent of all budgets of this owner is set to zero, and a new window begins. This cannot be taken back." /></div>`;
}

function Raise({ budget, name, path, reload }) {
  const isEndless = budget.reset_duration === 'never';
  const [amount, setAmount] = useState('');
  const [cycles, setCycles] = useState(isEndless ? '' : '1');
  const request = () => {
    const read = readAmount(amount, false);
    const faults = [...(read.amount > 0 ? [] : [`Amount ${read.fault ?? 'must be above 0'}`]), ...(cycles === '' || /^\d{1,4}$/.test(cycles) ? [] : ['Windows must be a number'])];
    const mode = cycles === '' ? { mode: 'forever' } : { mode: 'cycles', cycles: Number(cycles) };
    return { method: 'PUT', path, body: { amount: read.amount ?? 0, ...mode }, faults };
  };
  return html`<${Action} label="Raise" confirm="Raise" title=${`Raise the budget of ${name}`} request=${request} done=${reload} happens="The amount is added to the budget at once. It replaces an earlier raise.">
    <${Field} label="Amount in US dollars" inputmode="decimal" value=${amount} set=${setAmount} />
    ${!isEndless && html`<${Field} label="Windows" hint="The present one is the first; empty: until it is removed" inputmode="numeric" value=${cycles} set=${setCycles} />`}<//>`;
}
