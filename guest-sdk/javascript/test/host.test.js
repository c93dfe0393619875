import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { test } from 'node:test';

const wit = await readFile(new URL('../../../wit/host/0.1.0/host.wit', import.meta.url), 'utf8');
const camel = (name) => name.replace('%', '').replace(/-(.)/g, (match, letter) => letter.toUpperCase());

test('the substitutes have the functions of every interface of the contract', async () => {
  const interfaces = [...wit.matchAll(/^interface ([a-z-]+) \{(.*?)^\}/gms)];
  assert.ok(interfaces.length >= 8, 'interfaces are found');
  for (const [, name, body] of interfaces) {
    const functions = [...body.matchAll(/^ {4}(%?[a-z-]+): func/gm)].map(([, name]) => camel(name)).sort();
    if (functions.length === 0) continue; // `context`: a resource, which is passed to each call
    assert.deepEqual(Object.keys(await import(`airlock:host/${name}@0.1.0`)).sort(), functions, name);
  }
});

test('each interface is imported by one module, at the version that the package is made for', async () => {
  const place = new URL('..', import.meta.url);
  const modules = (await readdir(place)).filter((name) => name.endsWith('.js'));
  const sources = await Promise.all(modules.map((name) => readFile(new URL(name, place), 'utf8')));
  const imports = sources.flatMap((source) => [...source.matchAll(/^import .* from '(airlock:[^']*)';$/gm)].map(([, name]) => name));
  const interfaces = ['config', 'http', 'kv', 'log', 'secrets', 'secrets-reveal', 'tools'];
  assert.deepEqual(imports.sort(), interfaces.map((name) => `airlock:host/${name}@0.1.0`).sort());
});
