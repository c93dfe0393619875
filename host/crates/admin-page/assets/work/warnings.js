// What a person has to know of a call before the decision.
import { html, Text } from '../lib/core.js';
import { count, pieces } from '../lib/text.js';
import { askingWords } from './words.js';

/** Characters of arguments beyond which the box has to be scrolled. */
const LONG = 1_500;
const DEFINITIONS = {
  unaccepted: 'The server sends a definition of this tool that no one has accepted. Look at it on the page of the server.',
  changed: 'The tool is defined differently than when the call was made. An approval has no effect.',
  gone: 'There is no such tool now. An approval has no effect until it is back.',
};

/** Returns the warnings about a call that waits, the most serious first. */
export function warningsOf(call) {
  const effects = Object.values(call.effects ?? {});
  const text = call.arguments ?? '';
  return [
    DEFINITIONS[call.definition],
    call.sources?.length > 0 && `Made after reading untrusted content from ${call.sources.join(', ')}.`,
    call.asked_by?.length > 0 && `Guards ask: ${askingWords(call.asked_by)}`,
    pieces(text).some((piece) => piece.isMark) && 'The arguments have hidden characters, or letters that look like others. They are marked.',
    text.length > LONG && `The arguments have ${count(text.length)} characters. Scroll to their end.`,
    !effects.some((known) => typeof known === 'boolean') && 'The tool does not state its effects.',
  ].filter(Boolean);
}

/** The warnings, set off from all else. */
export function Warnings({ call }) {
  const warnings = warningsOf(call);
  if (warnings.length === 0) return null;
  return html`<ul class="notice warn" aria-label="Warnings">${warnings.map((warning) => html`<li><${Text} value=${warning} /></li>`)}</ul>`;
}
