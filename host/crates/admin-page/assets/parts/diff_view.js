// A difference of two texts: each changed line has a word, so that colour is not all that marks it.
import { html, Text } from '../lib/ui.js';
import { diffLines } from './diff.js';

/** Unchanged lines that are shown around a change. */
const AROUND = 2;
const MOST_LINES = 1000;

export function Diff({ before, after }) {
  const all = diffLines(before, after);
  const isNear = (at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(({ kind }) => kind !== 'same');
  const near = all.filter((_, at) => isNear(at));
  if (near.length === 0) return null;
  const count = (wanted) => all.filter(({ kind }) => kind === wanted).length;
  return html`<figure class="diff"><figcaption>${count('removed')} lines removed, ${count('added')} added</figcaption>
    <div class="scroll" tabindex="0" role="region" aria-label="Differences"><ol>${near.slice(0, MOST_LINES).map(({ kind, text }) => html`<li class=${kind}><span class="word">${kind === 'same' ? '' : kind}</span><span><${Text} value=${text} /></span></li>`)}</ol></div>
    ${near.length > MOST_LINES && html`<p>${near.length - MOST_LINES} more lines are not shown.</p>`}</figure>`;
}
