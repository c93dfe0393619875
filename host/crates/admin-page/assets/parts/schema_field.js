// The fields of a form that schema.js has made of a schema. All texts in it come from a server.
import { Field, html, Text, visible } from '../lib/ui.js';
import { initialOf, MAX_ITEMS } from './schema.js';

export function SchemaField({ field, value, set, isRoot }) {
  if (field.kind === 'object') return html`<${Members} ...${{ field, value, set, isRoot }} />`;
  if (field.kind === 'list') return html`<${Items} ...${{ field, value, set }} />`;
  const label = isRoot ? 'Arguments as JSON' : visible(field.label || 'element') + (field.isRequired ? ' (required)' : '');
  const hint = [field.hint, field.range, field.kind === 'json' && `as JSON, because ${field.reason}`].filter(Boolean).join('; ');
  const shared = { label, hint: hint && html`<${Text} value=${hint} />`, value, set };
  switch (field.kind) {
    case 'choice':
      return html`<${Field} ...${shared} as="select" options=${[['', 'not sent'], ...field.options.map((text, at) => [String(at), visible(text)])]} />`;
    case 'boolean':
      return html`<${Field} ...${shared} as="select" options=${[['', 'not sent'], ['true', 'true'], ['false', 'false']]} />`;
    case 'number':
    case 'integer':
      return html`<${Field} ...${shared} inputmode="decimal" />`;
    default:
      return html`<${Field} ...${shared} as=${field.kind === 'json' || field.isLong ? 'textarea' : 'input'} rows=${field.kind === 'json' ? 4 : 2} />`;
  }
}

function Members({ field, value, set, isRoot }) {
  const replaced = (at) => (inner) => set(value.map((old, index) => (index === at ? inner : old)));
  const members = field.fields.map((inner, at) => html`<${SchemaField} key=${at} field=${inner} value=${value[at]} set=${replaced(at)} />`);
  if (isRoot) return members.length > 0 ? members : html`<p>The tool takes no arguments.</p>`;
  return html`<fieldset><legend><${Text} value=${field.label || 'element'} /></legend>${field.hint && html`<p class="hint"><${Text} value=${field.hint} /></p>`}${members}</fieldset>`;
}

function Items({ field, value, set }) {
  const name = visible(field.label || 'list');
  const replaced = (at) => (inner) => set(value.map((old, index) => (index === at ? inner : old)));
  return html`<fieldset><legend>${name}${field.isRequired && ' (required)'}</legend>${field.hint && html`<p class="hint"><${Text} value=${field.hint} /></p>`}
    ${value.map((inner, at) => html`<div class="item" key=${at}><${SchemaField} field=${{ ...field.item, label: `${field.label} ${at + 1}` }} value=${inner} set=${replaced(at)} />
      <button type="button" onClick=${() => set(value.filter((_, index) => index !== at))}>Remove ${name} ${at + 1}</button></div>`)}
    ${value.length < MAX_ITEMS && html`<div class="actions"><button type="button" onClick=${() => set([...value, initialOf(field.item)])}>Add to ${name}</button></div>`}</fieldset>`;
}
