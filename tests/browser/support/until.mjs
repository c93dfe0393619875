import { setTimeout as pause } from 'node:timers/promises';

/** Asks again until the response is truthy, and returns it. Fails after `limit` milliseconds, with `what` was awaited: text, or a function. */
export async function until(what, ask, limit = 20_000) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await ask();
    if (found) {
      return found;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${limit} ms for ${typeof what === 'function' ? what() : what}`);
    }
    await pause(20);
  }
}
