// The list of the keys of the approvals, and whether they are used.
import { Dialog, html } from '../lib/ui.js';

const KEYS = [
  ['j', 'next call'], ['k', 'previous call'], ['Enter', 'open the call that has the focus'], ['a', 'approve the open call; asks for a confirmation'],
  ['d', 'deny the open call; asks for a reason'], ['n', 'show new calls'], ['?', 'show these keys'],
];

/** The dialog. `set` turns the keys on or off. */
export function Help({ isOn, set, close }) {
  return html`<${Dialog} title="Shortcuts" close=${close}>${(end) => html`
    <dl class="facts">${KEYS.map(([keys, word]) => html`<dt><kbd>${keys}</kbd></dt><dd>${word}</dd>`)}</dl>
    <p class="check"><input id="keys" type="checkbox" checked=${isOn} onChange=${(event) => set(event.currentTarget.checked)} /> <label for="keys">Use these keys on this page</label></p>
    <div class="actions"><button type="button" onClick=${end}>Close</button></div>`}<//>`;
}
