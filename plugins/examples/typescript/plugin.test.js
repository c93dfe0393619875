import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Host } from './airlock-plugin/testing.js';
import { tools } from './dist/plugin.js';

test('a known city has weather', async () => {
  const host = new Host();
  const output = await host.call(tools, 'get_weather', { city: 'Oslo' });
  assert.deepEqual(output.structuredContent, { city: 'oslo', celsius: 4, sky: 'snow' });
  assert.equal(host.progress.at(-1).message, 'found');
});

test('an unknown city is not found', async () => {
  await assert.rejects(new Host().call(tools, 'get_weather', { city: 'Olso' }), { kind: 'not-found', code: 'unknown_city' });
});
