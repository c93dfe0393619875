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

/** A JSON text: spaces are added for reading, and nothing else is changed. With `isWhole`, nothing of it is folded: it is in a box that scrolls. With `isBare`, it has no button. */
export function Json({ text, label, isWhole, isBare }) {
  const tokens = text.length > 500_000 ? undefined : layout(text);
  const isLong = tokens === undefined || tokens.length > MOST_TOKENS;
  const box = isWhole ? 'code-box code json whole' : 'code-box code json';
  const shown = !isLong ? (isWhole ? afterBoxes(tokens) : tokens).map((token) => shownToken(token, isWhole)) : isWhole ? html`<${Text} value=${text} />` : undefined;
  return html`<div class="json-box">${shown === undefined ? html`<${Block} value=${text} />` : html`<div class=${box} role="group" tabindex=${isWhole ? 0 : undefined} aria-label=${label}>${shown}</div>`}
    ${!isBare && html`<div class="actions"><${Copy} text=${text} label="Copy as sent" /></div>`}</div>`;
}

/** Returns the tokens without the commas and line ends behind strings that have boxes of their own: they would be on empty lines. */
function afterBoxes(tokens) {
  return tokens.map((token, at) => {
    const isComma = token.text === ',' && isBoxed(tokens[at - 1]);
    const isNext = isBoxed(tokens[tokens[at - 1]?.text === ',' ? at - 2 : at - 1]);
    return { ...token, text: isComma ? '' : token.text, space: isNext ? token.space.replace('\n', '') : token.space };
  });
}

function isBoxed(token) {
  return token?.kind === 'string' && token.text.length > MOST_STRING;
}

function shownToken({ space, text, kind }, isWhole) {
  if (isBoxed({ text, kind })) {
    const value = JSON.parse(text);
    const lines = html`<pre><${Text} value=${value} /></pre>`;
    return isWhole ? html`${space}<span class="hint">${count(value.length)} characters</span>${lines}` : html`${space}<${Fold} text=${value} most=${30}>${lines}<//>`;
  }
  if (kind === 'mark') return space + text;
  return html`${space}<span class=${`json-${kind}`}><${Text} value=${text} /></span>`;
}

/** A script. The lines with the numbers of `marked` are set off, with `mark` as the reason. With `isWhole`, all of it is in a box that scrolls. */
export function Script({ text, marked = [], mark, isWhole }) {
  const lines = text.replace(/\n$/, '').split('\n');
  const shown = lines.slice(0, MOST_LINES);
  const rest = lines.slice(MOST_LINES);
  const box = isWhole ? { class: 'scroll-box whole', role: 'group', tabindex: 0, 'aria-label': 'Script' } : { class: 'scroll-box' };
  return html`<div ...${box}><ol class="script code">${shown.map((line, at) => {
    const isMarked = marked.includes(at + 1);
    return html`<li class=${isMarked ? 'marked' : ''}><code><${Text} value=${line} /></code>${isMarked && html` <span class="flag">${mark}</span>`}</li>`;
  })}</ol>${isWhole && rest.length > 0 && html`<pre><${Text} value=${rest.join('\n')} /></pre>`}</div>${!isWhole && rest.length > 0 && html`<p class="hint">${count(rest.length)} more lines are not shown.</p>`}<div class="actions"><${Copy} text=${text} label="Copy the script" /></div>`;
}
