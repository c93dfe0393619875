/** The values of secrets, for the rare plugin that computes with one, such as a signature. */

import * as host from 'airlock:host/secrets-reveal@0.1.0';

import { HostError } from './errors.js';

const KINDS = {
  'no-such-secret': ['internal', (name) => `this plugin does not request the secret '${name}'`],
  denied: [
    'denied',
    (name) =>
      `this tool may not read the secret '${name}': the operator has not granted its value, or plugin.toml does not declare ` +
      '`secret` for the tool',
  ],
  unavailable: ['unavailable', (name) => `the secret '${name}' cannot be read now`],
  other: ['other', (name) => `the secret '${name}' cannot be read`],
};

/** A failure to read a secret. */
export class SecretError extends HostError {}

/** Returns the value, as bytes. The host still redacts it in results, errors and logs. */
export function reveal(name) {
  try {
    return host.reveal(name);
  } catch (error) {
    const [toolKind, message] = KINDS[error?.payload?.tag] ?? [];
    if (!toolKind) throw error;
    const detail = error.payload.val;
    throw new SecretError('SecretError', error.payload.tag, message(name) + (detail ? `: ${detail}` : ''), toolKind);
  }
}
