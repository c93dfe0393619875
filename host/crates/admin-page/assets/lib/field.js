// Labelled controls of forms.
import { html, useId } from './core.js';

/** A labelled control: an `input`, or `as` `textarea` or `select` with `options` of a value and its text. */
export function Field({ label, hint, fault, as = 'input', value, set, options = [], field, ...rest }) {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(' ') || undefined;
  const shared = { id, value, ref: field, 'aria-describedby': described, 'aria-invalid': fault ? 'true' : undefined, ...rest };
  const typed = (event) => set(event.currentTarget.value);
  const control = as === 'select'
    ? html`<select ...${shared} onChange=${typed}>${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}</select>`
    : html`<${as} autocomplete="off" spellcheck=${false} ...${shared} onInput=${typed} />`;
  return html`<div class="field"><label for=${id}>${label}</label>${control}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}${fault && html`<p class="fault" id=${`${id}-fault`}>${fault}</p>`}</div>`;
}
