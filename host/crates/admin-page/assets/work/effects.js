// What a tool does and how it is defined, in words.
import { Badge, html } from '../lib/core.js';

const EFFECTS = [
  ['destructive', true, 'bad', 'may destroy'], ['destructive', false, 'off', 'destroys nothing'],
  ['read_only', true, 'good', 'only reads'], ['read_only', false, 'wait', 'changes things'],
  ['open_world', true, 'wait', 'reaches outside'], ['open_world', false, 'off', 'stays inside'],
  ['idempotent', true, 'off', 'can be repeated'], ['idempotent', false, 'wait', 'each call counts'],
];
const DEFINITIONS = {
  current: ['good', 'unchanged'], unaccepted: ['warn', 'not accepted'], changed: ['bad', 'changed'], gone: ['bad', 'gone'],
};

/** The effects of a tool as its definition says; what a server says of itself is not checked. */
export function Effects({ effects }) {
  const known = EFFECTS.filter(([name, value]) => effects?.[name] === value);
  if (known.length === 0) return html`<${Badge} level="warn">effects not stated<//>`;
  return html`<span class="badges">${known.map(([, , level, word]) => html`<${Badge} level=${level}>${word}<//> `)}</span>`;
}

/** The state of the definition of a tool; `warnings.js` has what it means. */
export function Definition({ state }) {
  const known = DEFINITIONS[state];
  return known ? html`<${Badge} level=${known[0]}>${known[1]}<//>` : null;
}

/** Returns the name of an operator in what the API calls an actor, such as `operator "ann"`. */
export function actorName(actor) {
  return /^operator "(.*)"$/.exec(actor)?.[1] ?? actor;
}
