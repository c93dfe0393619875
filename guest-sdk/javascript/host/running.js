import { AsyncLocalStorage } from 'node:async_hooks';

/** The host that runs a call. */
export const storage = new AsyncLocalStorage();

/** Returns the host that runs the call. Fails outside a call. */
export function running() {
  const host = storage.getStore();
  if (host === undefined) throw new Error('there is no host outside a gateway; run it by Host of testing.js');
  return host;
}
