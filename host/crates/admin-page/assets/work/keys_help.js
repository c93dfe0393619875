// The list of the keys of a page, and whether they are used.
import { Dialog, html } from '../lib/ui.js';

/** The dialog. `set` turns the keys on or off. */
export function Help({ words, isOn, set, close }) {
  return html`<${Dialog} title="Keys" close=${close}>${(end) => html`
    <dl class="facts">${words.map(([keys, word]) => html`<dt><kbd>${keys}</kbd></dt><dd>${word}</dd>`)}</dl>
    <p class="check"><input id="keys" type="checkbox" checked=${isOn} onChange=${(event) => set(event.currentTarget.checked)} /> <label for="keys">Use these keys on this page</label></p>
    <div class="actions"><button type="button" onClick=${end}>Close</button></div>`}<//>`;
}
