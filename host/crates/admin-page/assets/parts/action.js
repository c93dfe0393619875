// Actions: each says what will happen, shows the same request with curl, and asks first.
import { useOperator } from '../lib/session.js';
import { Copy, html, lazy, Text, useId, useState } from '../lib/ui.js';

const ActionDialog = lazy(() => import('./dialog.js'), 'ActionDialog', 'dialog.css');

/**
 * A button for an action: it opens a dialog that says what will happen (`happens`), has the fields (`children`), and sends then.
 * `request` is `{ method, path, body }` and the `faults` of the fields, or a function that returns it. `done` gets the response,
 * and returns what the dialog shows in its place, or nothing to close it. `isDanger` marks an action that ends something that
 * runs, and `isFinal` one that cannot be undone: their buttons differ. Operators without the role `needs` do not see the button.
 */
export function Action({ label, title, happens, confirm, request, done, children, isDanger, isFinal, isPrimary, needs = 'operator' }) {
  const [isOpen, open] = useState(false);
  const role = useOperator()?.role;
  if (role !== 'admin' && role !== needs) return null;
  const shown = isOpen && html`<${ActionDialog} ...${{ title: title ?? label, happens, confirm, request, done, children, isDanger, isFinal }} close=${() => open(false)} />`;
  return html`<button type="button" class=${isFinal ? 'final' : isDanger ? 'danger' : isPrimary && 'primary'} onClick=${() => open(true)}>${label}…</button>${shown}`;
}

/** A value that the gateway shows once. */
export function ShownOnce({ what, value }) {
  return html`<p role="status"><${Text} value=${what} /> is shown only now. Copy it before you close this.</p><p class="secret"><code>${value}</code> <${Copy} text=${value} /></p>`;
}

export function Check({ label, value, set }) {
  const id = useId();
  return html`<div class="check"><input id=${id} type="checkbox" checked=${value} onChange=${(event) => set(event.currentTarget.checked)} /><label for=${id}>${label}</label></div>`;
}

/** Returns a time of a date field as the API takes it. Empty stays empty. */
export function endOf(date) {
  return date === '' ? '' : `${date}T00:00:00Z`;
}
