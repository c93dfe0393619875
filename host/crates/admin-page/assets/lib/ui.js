// Parts of forms and details: long texts, buttons that copy, dialogs and fields.
import { html, Text, Excerpt, useEffect, useId, useRef, useState } from './core.js';
import { sha256 } from './digest.js';
import { count } from './text.js';

export * from './core.js';
export { Field } from './field.js';

/** Length from which a text is folded. */
const FOLDED = 2_000;
/** Characters of a folded text that are shown. */
const HEAD = 300;
/** Time for which a button says that it has copied. */
const COPIED_MS = 2_000;

/** Foreign text with its line ends. A long one is folded, with its length and its digest. */
export function Block({ value, label }) {
  const text = String(value ?? '');
  if (text.length <= FOLDED) return html`<pre aria-label=${label}><${Text} value=${text} /></pre>`;
  return html`<${Fold} text=${text}><pre><${Text} value=${text} /></pre><//>`;
}

/** A long text: its begin, length and SHA-256, and `children` when it is opened. */
export function Fold({ text, children, most = HEAD }) {
  const [digest, set] = useState();
  const [isOpen, open] = useState(false);
  useEffect(() => {
    sha256(text).then(set);
  }, [text]);
  return html`<details class="fold" onToggle=${(event) => open(event.currentTarget.open)}>
    <summary>${!isOpen && html`<span class="code"><${Excerpt} value=${text} most=${most} /></span> `}<span class="hint">${count(text.length)} characters${digest && `, SHA-256 ${isOpen ? digest : `${digest.slice(0, 12)}…`}`}</span></summary>
    ${isOpen && children}</details>`;
}

/** A button that copies a text as it is. */
export function Copy({ text, label = 'Copy' }) {
  const [state, set] = useState('');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      set('Copied');
    } catch {
      set('The browser does not permit it');
    }
    setTimeout(set, COPIED_MS, '');
  };
  return html`<button type="button" class="small" onClick=${copy}>${label}</button><span role="status" class="hint">${state}</span>`;
}

/** A modal dialog. `close` is called when it has ended, also by Escape; the focus is then where it was. */
export function Dialog({ title, close, children, isWide }) {
  const dialog = useRef();
  const id = useId();
  useEffect(() => dialog.current.showModal(), []);
  const end = () => dialog.current?.close();
  const content = typeof children === 'function' ? children(end) : children;
  return html`<dialog ref=${dialog} class=${isWide ? 'wide' : ''} aria-labelledby=${id} onClose=${close}><h2 id=${id}>${title}</h2>${content}</dialog>`;
}
