// What the API says of a call, in words.
import { Badge, html } from '../lib/core.js';

const ORIGINS = {
  model: 'a model', mcp_client: 'an MCP client', operator: 'an operator, as a trial', script: 'a script', plugin: 'a plugin',
  caller: 'a program', program: 'the embedding program',
};
const STATES = {
  pending: 'wait', approved: 'good', denied: 'bad', sent: 'wait', in_doubt: 'bad', answered: 'good', running: 'wait', suspended: 'wait',
  interrupted: 'warn', completed: 'good', failed: 'bad', cancelled: 'off', success: 'good', error: 'bad', refused: 'warn', processing: 'wait',
};
const STATE_WORDS = {
  pending: 'waits for a person', in_doubt: 'in doubt', suspended: 'waits for a person', processing: 'runs', success: 'succeeded', error: 'failed',
  sent: 'runs', running: 'runs',
};

/** Returns where a call comes from. */
export function originWords(origin) {
  return ORIGINS[origin] ?? origin;
}

/** A state of a call or a run. */
export function State({ name }) {
  return html`<${Badge} level=${STATES[name]}>${STATE_WORDS[name] ?? String(name).replaceAll('_', ' ')}<//>`;
}
