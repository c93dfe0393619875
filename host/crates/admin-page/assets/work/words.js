// What the API says of a call, in words.
import { Badge, html } from '../lib/core.js';
import { keyWords } from './key_words.js';

const ORIGINS = {
  model: 'a model', mcp_client: 'an MCP client', operator: 'an operator, as a trial', script: 'a script', plugin: 'a plugin',
  caller: 'a program', program: 'the embedding program',
};
const STATES = {
  pending: 'wait', approved: 'good', denied: 'bad', sent: 'wait', in_doubt: 'bad', answered: 'good', running: 'wait', suspended: 'wait',
  interrupted: 'warn', completed: 'good', failed: 'bad', cancelled: 'off', success: 'good', error: 'bad', refused: 'warn', processing: 'wait', paused: 'wait',
};
const STATE_WORDS = {
  pending: 'waits for a person', in_doubt: 'in doubt', suspended: 'waits for a person', processing: 'runs', success: 'succeeded', error: 'failed',
  sent: 'runs', running: 'runs',
};

/** The origins of calls that are made by callers. */
export const ORIGIN_NAMES = Object.keys(ORIGINS);

/** Returns where a call comes from. */
export function originWords(origin) {
  return ORIGINS[origin] ?? origin;
}

/** Returns what has admitted a call; empty for one that was refused. */
export function decisionWords(decision) {
  return { automatic: 'the settings', caller: 'its request, or an approval of it', person: 'a person', enclosing: 'the call around it', continuation: 'an earlier call', refused: '' }[decision] ?? decision;
}

/** Returns the decisions of guards about a call, such as `secrets: deny, before the call`. */
export function guardWords(decisions) {
  const places = { before: 'before the call', after: 'after the call', definition: 'on the definition' };
  return decisions.map(({ guard, hook, verdict }) => `${guard}: ${verdict}, ${places[hook] ?? hook}`).join('; ');
}

/** Returns a code of an error in words, such as `needs approval`. */
export function codeWords(code) {
  return String(code ?? '').replace(/^airlock\./, '').replaceAll('_', ' ');
}

/** Returns the error that the caller of a refused call received, such as the reason of a denial; nothing without one. */
export function refusalText({ outcome, result }) {
  if (outcome !== 'refused' || !result) return undefined;
  try {
    return JSON.parse(result).content?.[0]?.text;
  } catch {
    return undefined;
  }
}

/** Returns who asks for a call that waits, such as `key ann, client Claude Code, an MCP client`. */
export function callerWords({ key, client, origin }) {
  return [key ? `key ${keyWords(key)}` : 'a caller without a key', client && `client ${client}`, origin && originWords(origin)].filter(Boolean).join(', ');
}

/** Returns the state of a logged call: an execution that has stopped for an approval has not failed. */
export function outcomeOf({ outcome, error_details: error }) {
  return outcome === 'error' && /^(airlock\.)?needs_approval$/.test(error?.code) ? 'paused' : outcome;
}

/** The guards that require an approval of a call, with their reasons, which an operator without payloads does not get. */
export function askingWords(askedBy) {
  return (askedBy ?? []).map(({ guard, reason }) => (reason ? `${guard}: ${reason}` : guard)).join('; ');
}

/** A state of a call or a run. */
export function State({ name }) {
  return html`<${Badge} level=${STATES[name]}>${STATE_WORDS[name] ?? String(name).replaceAll('_', ' ')}<//>`;
}
