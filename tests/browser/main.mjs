// The tests of the admin page: one browser, one gateway, and `walks` with one file a subject. `run` starts it.
import { after } from 'node:test';
import { start, stop } from './support/stage.mjs';

after(stop);
try {
  await start();
} catch (error) {
  console.error('browser: the gateway, the browser or the login does not work');
  await stop();
  throw error;
}
await import('./walks.mjs');
