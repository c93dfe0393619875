// Parts of all pages.
import { h, render } from '../vendor/preact.mjs';
import { useEffect, useId, useMemo, useRef, useState } from '../vendor/hooks.mjs';
import htm from '../vendor/htm.mjs';
import { excerpt, pieces, visible } from './text.js';

export const html = htm.bind(h);
export { render, useEffect, useId, useMemo, useRef, useState, visible };

/** Foreign text inside a line. Its direction does not reach the text around it. */
export function Text({ value }) {
  return html`<bdi>${pieces(value).map(Piece)}</bdi>`;
}

function Piece({ text, isMark }) {
  return isMark ? html`<span class="mark">${text}</span>` : text;
}

/** Most parts of a message; one with more is plain text. */
const MOST_PARTS = 99;

/** A message of the gateway, in which text between backticks is code. */
export function Message({ value }) {
  const parts = String(value ?? '').split('`');
  if (parts.length % 2 === 0 || parts.length > MOST_PARTS) return html`<${Text} value=${value} />`;
  return parts.map((part, at) => (at % 2 === 1 ? html`<code><${Text} value=${part} /></code>` : html`<${Text} value=${part} />`));
}

/** The begin of a foreign text, on one line. */
export function Excerpt({ value, most }) {
  return html`<bdi>${excerpt(value, most)}</bdi>`;
}

/** A state in a word. `level` is `good`, `wait`, `warn`, `bad` or `off`. */
export function Badge({ level = 'off', children }) {
  return html`<span class=${`badge ${level}`}>${children}</span>`;
}

/** What a list says when it has nothing to show. */
export function Empty({ children }) {
  return html`<div class="empty"><p>${children}</p></div>`;
}

/** A request that has failed, in words; nothing without an error. */
export function Fault({ error, retry }) {
  if (!error) return null;
  return html`<div role="alert" class="notice bad"><p><${Message} value=${error.message} /></p>
    ${error.code && error.code !== 'unreachable' && html`<p class="hint">Code <${Text} value=${error.code} /></p>`}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;
}

/** A component of a module that is loaded when it is shown for the first time, with its style sheets. */
export function lazy(load, name, ...styles) {
  let Component;
  return function Lazy(properties) {
    const [state, set] = useState({});
    useEffect(() => {
      const loaded = ([module]) => {
        Component = module[name];
        set({});
      };
      if (!Component) Promise.all([load(), ...styles.map(styled)]).then(loaded, (error) => set({ error }));
    }, []);
    if (Component) return html`<${Component} ...${properties} />`;
    return state.error ? html`<${Fault} error=${state.error} />` : html`<span aria-busy="true"></span>`;
  };
}

/** Loads a style sheet, once. */
export function styled(path) {
  const href = `/admin/assets/${path}`;
  if (document.querySelector(`link[href="${href}"]`)) return undefined;
  const link = Object.assign(document.createElement('link'), { rel: 'stylesheet', href });
  const loaded = new Promise((resolve) => link.addEventListener('load', resolve));
  document.head.append(link);
  return loaded;
}
