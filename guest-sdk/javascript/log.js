/** Diagnostics for the operator. Arguments and results of tools do not belong there. `console` writes here too. */

import { write } from 'airlock:host/log@0.1.0';

const line = (level) => (message, fields = {}) => {
  write(level, String(message), Object.entries(fields).map(([name, value]) => [name, shown(value)]));
};

/** The operator's log: `log.info('table read', { rows: 3 })`. */
export const log = Object.fromEntries(['trace', 'debug', 'info', 'warn', 'error'].map((level) => [level, line(level)]));

function shown(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return value.stack ? `${value}\n${value.stack}` : String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

/** Sends `console` to the log. A component that was built without standard output drops what is printed. */
export function redirectConsole() {
  const levels = { trace: 'trace', debug: 'debug', log: 'debug', info: 'info', warn: 'warn', error: 'error' };
  for (const [method, level] of Object.entries(levels)) {
    console[method] = (...values) => write(level, values.map(shown).join(' '), []);
  }
}
