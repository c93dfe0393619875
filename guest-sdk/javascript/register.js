/**
 * Lets Node.js import the interfaces of the host, for tests: `node --import ./airlock-plugin/register.js --test`. They forward to
 * the `Host` of `testing.js` that runs the call.
 */

import { register } from 'node:module';

register('./host/resolve.js', import.meta.url);
