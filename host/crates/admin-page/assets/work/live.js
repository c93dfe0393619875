// The stream of a page, its state in words, and what is loaded again after events.
import { follow } from '../lib/events.js';
import { html, useEffect, useRef, useState } from '../lib/core.js';

const WORDS = { connecting: 'Connecting…', live: 'Live', reconnecting: 'Connection lost. Reconnecting…', off: 'Not live' };

/** Follows topics as long as the component is shown. Returns the state of the stream, for `Live`. */
export function useEvents(topics, onEvent) {
  const [state, set] = useState({ name: 'connecting' });
  const handler = useRef();
  handler.current = onEvent;
  useEffect(
    () => follow(topics, { onEvent: (event) => handler.current(event), onState: (name, message) => set({ name, message }) }),
    [topics.join()],
  );
  return state;
}

/** The state of a stream. */
export function Live({ state }) {
  const level = { live: 'good', connecting: 'off' }[state.name] ?? 'warn';
  return html`<span role="status" class=${`live ${level}`}>${WORDS[state.name]}${state.message && `: ${state.message}`}</span>`;
}

/** Returns a function that calls `action` soon, and at most once each `interval` milliseconds. */
export function useThrottle(action, interval) {
  const state = useRef({ last: 0 });
  const latest = useRef();
  latest.current = action;
  useEffect(() => () => clearTimeout(state.current.timer), []);
  return () => {
    const own = state.current;
    if (own.timer !== undefined) return;
    const rest = Math.max(50, own.last + interval - Date.now());
    own.timer = setTimeout(() => {
      Object.assign(own, { timer: undefined, last: Date.now() });
      latest.current();
    }, rest);
  };
}
