// The list of calls that wait. It does not move while the pointer or the focus is on it: new calls are counted instead.
import { count, excerpt } from '../lib/text.js';
import { Badge, Empty, html, Text, useEffect, useRef, useState } from '../lib/core.js';
import { about, useNow } from '../lib/load.js';
import { keyWords } from './key_words.js';

/** Rows of a page of the list. */
const ROWS = 100;

/** Returns the calls that are shown: the latest, or those from when the pointer or the focus came, until `update`. */
export function useFrozen(latest) {
  const [shown, show] = useState(latest);
  const [isFrozen, freeze] = useState(false);
  const known = new Set(shown?.map((call) => call.id));
  const fresh = shown ? latest.filter((call) => !known.has(call.id)).length : 0;
  // New calls that were announced wait for the button, because it must not go away under the pointer.
  const isHeld = useRef(false);
  useEffect(() => {
    if (isFrozen && fresh > 0) isHeld.current = true;
    if (!isFrozen && !isHeld.current) show(latest);
  }, [latest, isFrozen]);
  const update = () => {
    isHeld.current = false;
    show(latest);
  };
  // What is known of a row may change, and its place does not.
  const left = new Map(latest?.map((call) => [call.id, call]));
  const calls = shown?.map((call) => left.get(call.id) ?? call);
  return { calls, fresh: isFrozen || isHeld.current ? fresh : 0, isGone: (id) => !left.has(id), freeze, update };
}

/** The list, of which `open` is the identifier of the call that is open. `list` gets the element, for the keys. */
export function WaitingList({ calls, fresh, isGone, freeze, update, open, list, isPartial }) {
  const [search, setSearch] = useState('');
  const [page, turn] = useState(0);
  const now = useNow(15_000);
  useEffect(() => () => freeze(false), []);
  const wanted = search.trim().toLowerCase();
  const found = wanted === '' ? calls : calls.filter((call) => [call.tool, call.key, call.client, call.arguments].some((text) => text?.toLowerCase().includes(wanted)));
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  const at = Math.min(page, pages - 1);
  const rows = found.slice(at * ROWS, (at + 1) * ROWS);
  const leave = (event) => {
    if (!event.currentTarget.contains(event.relatedTarget)) freeze(event.currentTarget.matches(':hover'));
  };
  return html`<search class="filter"><input type="search" aria-label="Search in the calls that wait" placeholder="Tool, key or argument" value=${search} onInput=${(event) => { setSearch(event.currentTarget.value); turn(0); }} /></search>
    <div class="fresh"><span role="status">${isPartial && 'More than '}${count(found.length)} ${found.length === 1 ? 'call waits' : 'calls wait'}${wanted && ' and match'}</span>
      ${fresh > 0 && html`<button type="button" class="small primary" onClick=${update}>${fresh} new</button>`}</div>
    ${rows.length === 0 && html`<${Empty}>${wanted ? 'No call that waits has this text.' : 'No call waits. When a model asks for a tool that needs an approval, the call appears here by itself.'}<//>`}
    ${rows.length > 0 && html`<ul class="waiting" ref=${list} onMouseEnter=${() => freeze(true)} onMouseLeave=${(event) => freeze(event.currentTarget.contains(document.activeElement))}
      onFocusIn=${() => freeze(true)} onFocusOut=${leave}>${rows.map((call) => html`<${Row} key=${call.id} ...${{ call, now, isOpen: call.id === open, isGone: isGone(call.id) }} />`)}</ul>`}
    ${pages > 1 && html`<div class="actions"><button type="button" disabled=${at === 0} onClick=${() => turn(at - 1)}>Previous</button><span>Page ${at + 1} of ${pages}</span>
      <button type="button" disabled=${at === pages - 1} onClick=${() => turn(at + 1)}>Next</button></div>`}`;
}

function Row({ call, now, isOpen, isGone }) {
  // The runs of a gateway may be kept without an end.
  const left = (call.expires_at_ms ?? Infinity) - now;
  return html`<li><a href=${`#${encodeURIComponent(call.id)}`} data-id=${call.id} aria-current=${isOpen ? 'true' : undefined} class=${isGone ? 'gone' : ''}>
    <span class="name"><${Text} value=${call.tool} /></span>
    <span class="when">${isGone ? 'decided' : left === Infinity ? '' : left > 0 ? `${about(left)} left` : 'expired'}</span>
    <span class="from"><${Text} value=${keyWords(call.key)} />${call.client && html`, <${Text} value=${call.client} />`}</span>
    <span class="what code">${call.arguments === undefined ? 'arguments hidden' : excerpt(call.manifest?.join('; ') ?? call.arguments, 90)}</span>
    ${(call.effects?.destructive || call.definition === 'changed' || call.approvals_required > 1) && html`<span class="badges">
      ${call.effects?.destructive && html`<${Badge} level="bad">may destroy<//>`} ${call.definition === 'changed' && html`<${Badge} level="bad">definition changed<//>`}
      ${call.approvals_required > 1 && html`<${Badge} level="wait">${call.approved_by?.length ?? 0} of ${call.approvals_required} approvals<//>`}</span>`}
  </a></li>`;
}
