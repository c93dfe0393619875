/** The examples print what the comments at their end say, and the page shows them. */

import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

import { PLACE, WITHOUT_TYPESCRIPT, runFile } from './support.mjs';

const EXAMPLES = join(PLACE, 'examples');
const NAMES = ['agent', 'approvals', 'gateway', 'plain'];

const source = (name) => readFile(join(EXAMPLES, `${name}.mts`), 'utf8');

test('each example is tested', async () => {
  assert.deepEqual((await readdir(EXAMPLES)).sort(), NAMES.map((name) => `${name}.mts`));
});

for (const name of NAMES) {
  test(`the example ${name} prints the lines at its end`, { skip: WITHOUT_TYPESCRIPT }, async () => {
    const lines = (await source(name)).trimEnd().split('\n');
    const expected = lines.slice(lines.findLastIndex((line) => !line.startsWith('// ')) + 1).map((line) => line.slice(3));
    const done = await runFile(join(EXAMPLES, `${name}.mts`));
    assert.deepEqual([done.code, done.errors], [0, '']);
    assert.deepEqual(done.output.trimEnd().split('\n'), expected);
  });
}

test('the page begins with the first example and shows the others', async () => {
  const page = await readFile(process.env.AIRLOCK_NODE_PAGE, 'utf8');
  const programs = [...page.matchAll(/```ts\n(import .*?)```/gs)].map(([, program]) => program);
  const examples = await Promise.all(['plain', 'approvals', 'gateway', 'agent'].map(source));
  assert.deepEqual(programs, examples.map((text) => text.slice(text.indexOf('\n\n') + 2)));
  assert.match(page, /^# Node\.js\n\n```ts\nimport /);
});
