// The state of a server as a badge.
import { Badge, html } from '../lib/ui.js';

/** By phase: the level of its badge, and words for people who do not know the states. */
const PHASES = {
  ready: ['good', 'ready'],
  starting: ['wait', 'starting'],
  restarting: ['wait', 'restarting'],
  degraded: ['warn', 'works, with problems'],
  held_out: ['warn', 'held out: its tools differ'],
  failed: ['bad', 'failed'],
  stopped: ['off', 'stopped until a call needs it'],
  disabled: ['off', 'disabled'],
};

function phaseOf(client) {
  return client.phase ?? { connected: 'ready', connecting: 'starting', error: 'failed' }[client.state] ?? 'stopped';
}

export function Phase({ client }) {
  const phase = phaseOf(client);
  const [level, words] = PHASES[phase] ?? ['off', phase];
  return html`<${Badge} level=${level}>${words}<//>`;
}
