// The example's tool, and additional tools for the tests.

import { plugin, s, tool } from './airlock-plugin/index.js';
import * as http from './airlock-plugin/http.js';
import { tools as example } from './plugin.js';

const input = s.object({ url: s.string() });

const probes = plugin(
  tool({
    name: 'knock',
    description: 'Asks a server that nobody granted; answers what kind of failure that is.',
    input,
    output: s.object({ kind: s.string() }),
    run({ url }) {
      console.log('about to knock');
      try {
        http.get(url);
      } catch (error) {
        return { kind: error.kind };
      }
      return { kind: 'none' };
    },
  }),
  tool({
    name: 'visit',
    description: 'Asks a server; answers what it says.',
    input,
    run: async ({ url }) => (await fetch(url)).text(),
  }),
  tool({
    name: 'dice',
    description: 'Returns random numbers of each kind that the language has.',
    output: s.object({ random: s.number(), uuid: s.string() }),
    run: () => ({ random: Math.random(), uuid: crypto.randomUUID() }),
  }),
  tool({ name: 'crash', description: 'Fails by accident.', run: () => undefined.nothing }),
);

export const tools = {
  describe: () => [...example.describe(), ...probes.describe()],
  invoke: (name, args, call) => (name === 'get_weather' ? example : probes).invoke(name, args, call),
};
