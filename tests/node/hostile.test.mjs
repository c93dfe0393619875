/** Hostile scripts end as errors of the package, and the process goes on. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as airlock from 'airlock-gateway';

import { anyTool } from './support.mjs';

const { runScript, startScript } = airlock;

// Each ends by a limit that is reached soon.
const LIMITS = { memoryMb: 64, cpuSeconds: 1, seconds: 20, calls: 50 };
const PYTHON = {
  'endless loop': 'while True: pass',
  'endless loop that handles everything': 'while True:\n    try:\n        while True: pass\n    except: pass',
  'list without end': "a = []\nwhile True: a.append('x' * 1000)",
  'text of a gibibyte': "len('x' * 2 ** 30)",
  'number with a thousand million digits': '10 ** 10 ** 9',
  'text that doubles': "a = 'x'\nwhile True: a += a",
  'recursion': 'def f(n): return f(n + 1)\nf(0)',
  'large result': "'x' * (20 << 20)",
  'deep result': 'a = []\nfor _ in range(1000): a = [a]\na',
  'value that contains itself': 'a = []\na.append(a)\na',
  'result that is a function': 'len',
  'calls without end': "while True: echo('a')",
  'large argument': "echo('x' * (40 << 20))",
  'deep argument': 'a = []\nfor _ in range(1000): a = [a]\necho(a)',
  'many calls at once': 'import asyncio\nawait asyncio.gather(*[echo(n) for n in range(1000)])',
};
// Whether these fail is a matter of the interpreter.
const HARMLESS = {
  'regular expression': "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
  'long source': 'a = 1\n'.repeat(100_000),
  'closed interpreter': 'raise SystemExit',
  'null byte': '\0',
  'half of a surrogate pair': "'\ud800'",
  'nested source': '('.repeat(5000) + ')'.repeat(5000),
  'names of JavaScript': 'echo({"__proto__": {"a": 1}, "constructor": 1, "toString": 1, "then": 1})',
};
const STARLARK = {
  'endless loop': 'while True: pass',
  'text of a gibibyte': "len('x' * (1 << 30))",
  'recursion': 'def f(n): return f(n + 1)\nf(0)',
  'calls without end': "while True: echo('a')",
};
const echo = anyTool('echo', ({ value }) => value);

/** Returns whether a script failed, after another one has run. */
async function failed(code, language) {
  const error = await runScript(code, { tools: [echo], language, limits: LIMITS }).then(() => undefined, (thrown) => thrown);
  if (error !== undefined) assert.ok(error instanceof airlock.AirlockError, String(error));
  assert.equal(await runScript('echo(2) + 1', { tools: [echo], language }), 3);
  assert.equal(Object.prototype.a, undefined);
  return error !== undefined;
}

for (const [name, code] of Object.entries(PYTHON)) {
  test(`in Python: ${name}`, async () => assert.ok(await failed(code, 'python')));
}
for (const [name, code] of Object.entries(HARMLESS)) {
  test(`without harm in Python: ${name}`, async () => void (await failed(code, 'python')));
}
for (const [name, code] of Object.entries(STARLARK)) {
  test(`in Starlark: ${name}`, async () => assert.ok(await failed(code, 'starlark')));
}

test('printed text is bounded', async () => {
  for (const language of ['python', 'starlark']) {
    const run = await startScript("for n in range(3000): print('x' * 1000)", { language });
    assert.ok(run.output.length < 2 << 20);
  }
});

test('large messages of errors are cut', async () => {
  const refuse = anyTool('refuse', () => {
    throw new RangeError('x'.repeat(10 << 20));
  });
  await assert.rejects(runScript('refuse()', { tools: [refuse] }), (error) => error.message.length < 100_000);
});

test('each limit is named when it is reached', async () => {
  const call = anyTool('call', () => null);
  for (const [code, limits, limit] of [
    ['while True: pass', { cpuSeconds: 0.1 }, 'cpuSeconds'],
    ['while True: pass', { seconds: 0.1 }, 'seconds'],
    ['while True: call()', { calls: 3 }, 'calls'],
    ["'x' * (2 << 20)", {}, 'result'],
  ]) {
    await assert.rejects(runScript(code, { tools: [call], limits }), { name: 'LimitExceeded', limit });
  }
});

test('a run within its limits ends', async () => {
  assert.deepEqual(await runScript('[echo(n) for n in range(3)]', { tools: [echo], limits: { calls: 3 } }), [0, 1, 2]);
});

test('a limit out of its range is refused by its name', async () => {
  for (const [name, values] of Object.entries({
    memoryMb: [0, -1, 1025, NaN],
    cpuSeconds: [0, 3601],
    seconds: [0, -1, Infinity],
    calls: [0, -1, 1.5, 20_001],
    parallelCalls: [0, 1001],
    nesting: [0, 17],
  })) {
    for (const value of values) {
      const refused = runScript('1', { limits: { [name]: value } });
      await assert.rejects(refused, (error) => error instanceof airlock.AirlockError && error.message.includes(name));
    }
  }
});

class EndlessSet extends Set {
  *[Symbol.iterator]() {
    for (;;) yield 1;
  }
}

class EndlessMap extends Map {
  *[Symbol.iterator]() {
    for (;;) yield ['name', undefined];
  }
}

class EndlessArray extends Array {
  *[Symbol.iterator]() {
    for (;;) yield undefined;
  }
}

class EndlessTree {
  constructor() {
    for (const name of ['left', 'right']) Object.defineProperty(this, name, { enumerable: true, get: () => new EndlessTree() });
  }
}

/** Returns an object whose properties are made when they are read: all of them would take gigabytes. */
function largeProperties() {
  const made = {};
  for (let part = 0; part < 200; part += 1) {
    Object.defineProperty(made, `part${part}`, { enumerable: true, get: () => Buffer.alloc(32 << 20, 'x').toString('latin1') });
  }
  return made;
}

const list = [];
list.push(list);
const members = {};
members.more = members;
const HOSTILE = {
  'an array that contains itself': list,
  'an object that contains itself': members,
  'an array without end': new EndlessArray(),
  'a set without end': new EndlessSet(),
  'a map without end, of members that are left out': new EndlessMap(),
  'properties without end': new EndlessTree(),
  'properties that are large together': largeProperties(),
  'what toJSON returns without end': { toJSON: () => ({ toJSON: () => HOSTILE['what toJSON returns without end'] }) },
  'an object of a number that is itself': Object.assign(Object(1), { valueOf: () => HOSTILE['an object of a number that is itself'] }),
  'a sparse array': new Array(2 ** 32 - 1),
  NaN: [NaN],
  'a large BigInt': 1n << 100_000n,
  'a text of 65 MiB': 'x'.repeat(65 << 20),
  'bytes of 60 MiB': new Uint8Array(60 << 20),
  'a key that is no text': new Map([[{}, 1]]),
  'half of a surrogate pair': { '\ud800': 1 },
  'a generator': (function* () {})().next,
};

for (const [name, value] of Object.entries(HOSTILE)) {
  test(`as a result or an input: ${name}`, async () => {
    const take = anyTool('take', () => value);
    await assert.rejects(runScript('take()', { tools: [take], limits: LIMITS }), (error) => error.cause instanceof TypeError);
    await assert.rejects(runScript('value', { inputs: { value } }), TypeError);
    assert.equal(await runScript('echo(2) + 1', { tools: [echo] }), 3);
  });
}
