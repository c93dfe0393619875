// The example's tool, and additional tools for the tests.

import { send } from 'airlock:host/http@0.1.0';

import { object, plugin } from './airlock.js';
import { tools as example } from './plugin.js';

const url = { type: 'string' };

const get = (url) => ({
  method: 'GET',
  url,
  headers: [],
  body: undefined,
  timeoutMs: undefined,
  maxResponseBytes: undefined,
  credential: undefined,
});

const probes = plugin({
  knock: {
    description: 'Asks a server that nobody granted; answers what kind of failure that is.',
    input: object({ url }),
    output: object({ kind: { type: 'string' } }),
    run({ url }) {
      console.log('about to knock');
      try {
        send(get(url));
      } catch (error) {
        return { kind: error.payload.kind };
      }
      return { kind: 'none' };
    },
  },
  visit: {
    description: 'Asks a server; answers what it says.',
    input: object({ url }),
    run: async ({ url }) => (await fetch(url)).text(),
  },
  crash: { description: 'Fails by accident.', input: object({}), run: () => undefined.nothing },
});

export const tools = {
  describe: () => [...example.describe(), ...probes.describe()],
  invoke: (name, args, call) => (name === 'get_weather' ? example : probes).invoke(name, args, call),
};
