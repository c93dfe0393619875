import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { Host } from '../testing.js';

const PACKAGE = new URL('..', import.meta.url).href;
const page = await readFile(new URL('../README.md', import.meta.url), 'utf8');
const blocks = (language) => [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter(([, found]) => found === language).map(([, , text]) => text);

/** Returns the module of a sample. */
async function imported(context, sample) {
  const directory = await mkdtemp(join(tmpdir(), 'airlock-plugin-'));
  context.after(() => rm(directory, { recursive: true }));
  const file = join(directory, 'plugin.mjs');
  await writeFile(file, sample.replaceAll('./airlock-plugin/', PACKAGE));
  return import(pathToFileURL(file).href);
}

test('the sample of the README runs, its arguments are described, and its entries of plugin.toml are those that it needs', async (context) => {
  const { tools } = await imported(context, blocks('js')[0]);
  const host = new Host({ stores: ['visits'] });
  await host.call(tools, 'count_visit', { page: '/' });
  assert.deepEqual((await host.call(tools, 'count_visit', { page: '/', by: 2 })).structuredContent, { visits: 3 });
  const [{ name, inputSchema }] = tools.describe();
  const without = Object.entries(JSON.parse(inputSchema).properties).filter(([, { description }]) => !description);
  assert.deepEqual(without, []);
  for (const line of [`name = "${name}"`, '[request.kv.visits]']) assert.ok(blocks('toml')[0].includes(line), line);
});
