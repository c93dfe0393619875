// What a person has to know of a call before the decision.
import { html, Text } from '../lib/core.js';
import { layout } from '../lib/json.js';
import { count, pieces } from '../lib/text.js';
import { askingWords } from './words.js';

/** Characters and lines of arguments beyond which the box has to be scrolled. */
const LONG = 1_500;
const MOST_LINES = 15;
const DEFINITIONS = {
  unaccepted: 'The server sends a definition of this tool that no one has accepted. Look at it on the page of the server.',
  changed: 'The tool is defined differently than when the call was made. An approval has no effect.',
  gone: 'There is no such tool now. An approval has no effect until it is back.',
};

/** Returns the lines of arguments: those of their members, and those inside their strings. */
function linesOf(text) {
  const members = layout(text)?.filter(({ space }) => space.startsWith('\n')).length ?? 0;
  return 1 + members + (text.match(/\n|\\n/g)?.length ?? 0);
}

/** Returns the warnings about a call that waits, the most serious first. */
export function warningsOf(call) {
  const effects = Object.values(call.effects ?? {});
  const text = call.arguments ?? '';
  const lines = linesOf(text);
  return [
    DEFINITIONS[call.definition],
    call.sources?.length > 0 && `Made after reading untrusted content from ${call.sources.join(', ')}.`,
    call.asked_by?.length > 0 && `Guards ask: ${askingWords(call.asked_by)}`,
    pieces(text).some((piece) => piece.isMark) && 'The arguments have hidden characters, or letters that look like others. They are marked.',
    (text.length > LONG || lines > MOST_LINES) && `The arguments have ${count(text.length)} characters and ${count(lines)} lines. Scroll to their end.`,
    !effects.some((known) => typeof known === 'boolean') && 'The tool does not state its effects.',
  ].filter(Boolean);
}

/** The warnings, set off from all else. */
export function Warnings({ call }) {
  const warnings = warningsOf(call);
  if (warnings.length === 0) return null;
  return html`<ul class="notice warn" aria-label="Warnings">${warnings.map((warning) => html`<li><${Text} value=${warning} /></li>`)}</ul>`;
}
