// The fields of the limits of a key, team or customer.
import { Field, html, useState } from '../lib/ui.js';
import { Action } from './action.js';
import { limitsBody, limitsForm, WINDOWS } from './key_form.js';

const ROWS = [['tool_call', 'Calls of tools'], ['argument_byte', 'Bytes of arguments'], ['request', 'Requests to models'], ['token', 'Tokens']];

export function LimitFields({ form, set }) {
  const change = (field) => (value) => set({ ...form, [field]: value });
  const row = (name, label, more) => html`<div class="columns"><${Field} label=${label} inputmode="decimal" value=${form[name]} set=${change(name)} ...${more} />
    <${Field} as="select" label=${`${label}: in each`} value=${form[`${name}_window`]} set=${change(`${name}_window`)} options=${withOwn(form[`${name}_window`])} /></div>`;
  return html`<p class="hint">An empty field is no limit, and 0 refuses all.</p>
    ${form.isOdd ? html`<p class="notice">It has several budgets, or budgets with more settings; change them in the configuration or with curl. They stay as they are.</p>` : row('money', 'Money in US dollars')}
    ${ROWS.map(([name, label]) => row(name, label))}
    <${Field} label="At the same time" hint="Requests and calls that run, on each gateway" inputmode="numeric" value=${form.concurrent} set=${change('concurrent')} />`;
}

/** A window that is not in the list, such as 90m, stays. */
function withOwn(window) {
  return WINDOWS.some(([known]) => known === window) ? WINDOWS : [[window, window], ...WINDOWS];
}

export function ChangeLimits({ element, path, reload }) {
  const [form, set] = useState(limitsForm(element));
  const request = () => ({ method: 'PUT', path, ...limitsBody(form) });
  return html`<${Action} label="Change limits" confirm="Save" title=${`Limits of ${element.name}`} request=${request} done=${reload} happens="This holds at once. What was used stays counted; the count of a limit that you remove is forgotten.">
    <${LimitFields} ...${{ form, set }} /><//>`;
}
