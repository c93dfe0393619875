// A choice of a virtual key by its name.
import { useLoad } from '../lib/list.js';
import { Field, html, visible } from '../lib/ui.js';

const SHOWN = 1000;

/** `none` are the words for no key. Beyond a thousand keys, the name is typed. */
export function KeyChoice({ value, set, none }) {
  const { data, isBusy } = useLoad(`/api/governance/virtual-keys?limit=${SHOWN}`);
  const keys = data?.virtual_keys ?? [];
  if (data?.total_count > SHOWN) return html`<${Field} label="Key" hint=${`Its name; empty for ${none}`} value=${value} set=${set} />`;
  const names = keys.map((key) => key.name);
  const options = [['', none], ...(value === '' || names.includes(value) ? [] : [[value, visible(value)]]), ...names.map((name) => [name, visible(name)])];
  return html`<div aria-busy=${isBusy}><${Field} as="select" label="Key" value=${value} set=${set} options=${options} /></div>`;
}
