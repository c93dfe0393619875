// JSON texts as they were written, and scripts with their lines.
import { layout } from '../lib/json.js';
import { Block, Copy, Fold, html, Text } from '../lib/ui.js';
import { count } from '../lib/text.js';

/** Characters of a string beyond which it is folded. */
const MOST_STRING = 240;
/** Tokens beyond which a document is shown as it came. */
const MOST_TOKENS = 5_000;
/** Lines of a script that are shown one by one. */
const MOST_LINES = 2_000;

/** A JSON text: spaces are added for reading, and nothing else is changed. */
export function Json({ text, label }) {
  const tokens = text.length > 500_000 ? undefined : layout(text);
  const isLong = tokens === undefined || tokens.length > MOST_TOKENS;
  return html`<div class="json-box">${isLong ? html`<${Block} value=${text} />` : html`<div class="code-box code json" role="group" aria-label=${label}>${tokens.map(Token)}</div>`}
    <div class="actions"><${Copy} text=${text} label="Copy as sent" /></div></div>`;
}

function Token({ space, text, kind }) {
  if (kind === 'string' && text.length > MOST_STRING) {
    return html`${space}<${Fold} text=${JSON.parse(text)} most=${30}><pre><${Text} value=${JSON.parse(text)} /></pre><//>`;
  }
  if (kind === 'mark') return space + text;
  return html`${space}<span class=${`json-${kind}`}><${Text} value=${text} /></span>`;
}

/** A script. The lines with the numbers of `marked` are set off, with `mark` as the reason. */
export function Script({ text, marked = [], mark }) {
  const lines = text.replace(/\n$/, '').split('\n');
  const shown = lines.slice(0, MOST_LINES);
  return html`<div class="scroll-box"><ol class="script code">${shown.map((line, at) => {
    const isMarked = marked.includes(at + 1);
    return html`<li class=${isMarked ? 'marked' : ''}><code><${Text} value=${line} /></code>${isMarked && html` <span class="flag">${mark}</span>`}</li>`;
  })}</ol></div>${lines.length > shown.length && html`<p class="hint">${count(lines.length - shown.length)} more lines are not shown.</p>`}<div class="actions"><${Copy} text=${text} label="Copy the script" /></div>`;
}
