// What the pages of lists share: search and pages, and the part of the address after `#`.
import { pathOf, Table, Time, useHash, useLoad } from '../lib/list.js';
import { html, useId, useRef, useState } from '../lib/ui.js';

/** Time without a key before a search is sent. */
const SEARCH_MS = 250;

/** Returns the name and the value of the fragment, such as `server` and `files` of `#server=files`. */
export function useFragment() {
  const fragment = useHash();
  const at = fragment.indexOf('=');
  return at < 0 ? { name: fragment, value: '' } : { name: fragment.slice(0, at), value: fragment.slice(at + 1) };
}

/** A list of the API with search and pages: `{ data, error, isBusy, reload, controls }`. */
export function useList(path, parameters = {}, size = 100) {
  const [search, setSearch] = useState('');
  const [offset, setOffset] = useState(0);
  const found = useLoad(pathOf(path, { ...parameters, search, offset: offset || '', limit: size }));
  const total = found.data?.total_count;
  const controls = html`<${Controls} search=${(text) => { setSearch(text); setOffset(0); }} ...${{ total, offset, size, setOffset }} />`;
  return { ...found, controls, isSearch: search !== '' };
}

function Controls({ search, total, offset, size, setOffset }) {
  const timer = useRef();
  const id = useId();
  const typed = (event) => {
    const text = event.currentTarget.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => search(text), SEARCH_MS);
  };
  return html`<div class="controls">
    <label for=${id}>Search</label><input id=${id} type="search" autocomplete="off" onInput=${typed} />
    <span role="status" class="hint">${total === undefined ? '' : total > size ? `${offset + 1} to ${Math.min(offset + size, total)} of ${total}` : `${total} found`}</span>
    ${offset > 0 && html`<button type="button" onClick=${() => setOffset(Math.max(0, offset - size))}>Previous</button>`}
    ${offset + size < total && html`<button type="button" onClick=${() => setOffset(offset + size)}>Next</button>`}
  </div>`;
}

/** A table whose rows are arrays of cells. */
export function Rows({ label, columns, rows, plain }) {
  return html`<${Table} ...${{ label, columns, plain }} rows=${rows.map((cells, key) => ({ key, cells }))} />`;
}

/** Returns a time for people; empty without one. */
export function when(time) {
  return time ? html`<${Time} at=${time} />` : '';
}
