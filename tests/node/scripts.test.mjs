/** Scripts without tools: their values, inputs, printed text and failures. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as airlock from 'airlock-gateway';

const { runScript, startScript } = airlock;

const echo = (value) => runScript('value', { inputs: { value } });

test('the value is that of result or of the last expression', async () => {
  assert.equal(await runScript('result = 1\n2'), 1);
  assert.equal(await runScript('1 + 2'), 3);
  assert.equal(await runScript('None'), null);
  assert.equal(await runScript('a = 1'), null);
  assert.equal(await runScript(''), null);
  assert.deepEqual(await runScript('[x * x for x in range(3)]', { language: 'starlark' }), [0, 1, 4]);
});

test('values pass unchanged in both directions', async () => {
  const values = [
    null, true, false, 0, -1, 0.5, -0.25, 1e300, 5e-324, 2 ** 53 - 1, -(2 ** 53) + 1, '', 'ä🎉\0"\\\n', '~', 'n1', 't', [], [[1]], {},
    { a: { b: [1, null] } }, { __proto__: null, x: 1 }, JSON.parse('{"__proto__": {"a": 1}}'),
  ];
  for (const value of values) assert.deepEqual(plain(await echo(value)), plain(value));
});

test('an integer beyond 53 bits is a BigInt, and the strings beside it are unchanged', async () => {
  for (const value of [2n ** 53n, -(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n - 1n]) assert.equal(await echo(value), value);
  assert.equal(await runScript('2 ** 53 - 1'), 2 ** 53 - 1);
  assert.deepEqual(await echo([2n ** 60n, 'n1', 't', '~', { n2: ['', 1] }]), [2n ** 60n, 'n1', 't', '~', { n2: ['', 1] }]);
});

test('a small BigInt becomes a number, and a number beyond 53 bits stays what it is', async () => {
  assert.equal(await echo(5n), 5);
  for (const value of [2 ** 53, 2 ** 64, 12345678901234567890, 1e21, -1e25]) assert.equal(await echo(value), value);
  // It is a float there: an integer would have digits that the number does not have.
  const isFloat = 'isinstance(value, float)';
  assert.equal(await runScript(isFloat, { inputs: { value: 2 ** 60 } }), true);
  assert.equal(await runScript(isFloat, { inputs: { value: 2n ** 60n } }), false);
});

test('an integer beyond 64 bits is text as a value', async () => {
  assert.equal(await runScript('2 ** 64'), String(2n ** 64n));
});

test('values that are not JSON have a defined form', async () => {
  const shared = { a: 1 };
  const expected = [
    [{ a: undefined, b: 1 }, { b: 1 }],
    [[undefined, , 1], [null, null, 1]],
    [new Date(Date.UTC(2026, 0, 2, 3, 4, 5)), '2026-01-02T03:04:05.000Z'],
    [new Uint8Array([1, 2]), 'AQI='],
    [Buffer.from([1, 2]), 'AQI='],
    [new Uint8Array([0, 1, 2, 3]).subarray(1, 3), 'AQI='],
    [new Uint8Array([1, 2]).buffer, 'AQI='],
    [new DataView(new Uint8Array([1, 2]).buffer), 'AQI='],
    [new Float64Array([0.5, 1]), [0.5, 1]],
    [new BigInt64Array([2n ** 60n]), [2n ** 60n]],
    [new Map([['a', 1], ['b', undefined]]), { a: 1 }],
    [new Set(['b', 'a']), ['b', 'a']],
    [new URL('https://example.com/a'), 'https://example.com/a'],
    [{ toJSON: () => [1] }, [1]],
    [Object(5), 5],
    [new (class Point { x = 1; })(), { x: 1 }],
    [[shared, shared], [shared, shared]],
    [-0, 0],
  ];
  for (const [value, result] of expected) assert.deepEqual(await echo(value), result);
});

test('values without a JSON form are refused', async () => {
  const loop = [];
  loop.push(loop);
  const circle = {};
  circle.circle = circle;
  let deep = 1;
  for (let level = 0; level < 200; level += 1) deep = [deep];
  const values = [
    NaN, Infinity, -Infinity, 2n ** 64n, -(2n ** 63n) - 1n, loop, circle, deep, '\ud800', { '\udc00': 1 }, 'x'.repeat(65 << 20),
    Array(2 << 20).fill(1), () => 1, Symbol('a'), [Symbol.iterator], Promise.resolve(1), new Error('a'), /a/, new Date(NaN),
    new Map([[1, 2]]), new WeakMap(), [NaN], { a: () => 1 },
  ];
  for (const value of values) await assert.rejects(echo(value), TypeError);
});

test('the error of a value without a JSON form has its place', async () => {
  const places = [[NaN, 'value'], [[1, { a: [() => 1] }], 'value[1].a[0]'], [new Map([['m', new Set([Symbol('a')])]]), 'value.m[0]']];
  for (const [value, place] of places) {
    const inputs = { other: [1], value };
    await assert.rejects(runScript('1', { inputs }), ({ message }) => message.endsWith(`(in ${place})`));
  }
  const inputs = { value: { ['k'.repeat(10_000)]: NaN } };
  await assert.rejects(runScript('1', { inputs }), ({ message }) => message.length < 200);
});

test('infinity as the value of a script is its failure', async () => {
  await assert.rejects(runScript("float('inf')"), airlock.ScriptError);
});

test('a name that no input can have is refused', async () => {
  for (const name of ['for', 'a b', '', 'result', '__name']) await assert.rejects(runScript('1', { inputs: { [name]: 1 } }), airlock.AirlockError);
  for (const inputs of [[1], 'a', null, 5]) await assert.rejects(runScript('1', { inputs }), airlock.AirlockError);
});

test('options that are wrong or mistyped are refused', async () => {
  const options = [
    { language: 'ruby' }, { language: 1 }, { limit: {} }, { limits: { second: 1 } }, { limits: { seconds: '1' } }, { limits: 1 }, { onPrint: 1 },
    { signal: {} }, [], null, 'a',
  ];
  for (const wrong of options) await assert.rejects(runScript('1', wrong), airlock.AirlockError);
  for (const code of [undefined, 1, ['1'], '"\ud800"']) await assert.rejects(runScript(code), airlock.AirlockError);
});

test('each line is passed on and kept', async () => {
  const lines = [];
  const run = await startScript("print('a')\nprint('b', 1)", { onPrint: (line) => lines.push(line) });
  assert.deepEqual(lines, ['a', 'b 1']);
  assert.equal(run.output, 'a\nb 1');
});

test('many lines arrive in their order before the end', async () => {
  const lines = [];
  await runScript('for n in range(3500): print(n)', { onPrint: (line) => lines.push(line) });
  assert.deepEqual(lines, Array.from({ length: 3500 }, (_, n) => String(n)));
});

test('an error of the receiver of lines ends the script', async () => {
  const error = new RangeError('full');
  const refuse = () => {
    throw error;
  };
  await assert.rejects(runScript("print('a')\nwhile True: pass", { onPrint: refuse }), (thrown) => thrown === error);
});

test('a promise of a printer that is rejected ends the run, and not the program', async () => {
  const error = new Error('no');
  const refuse = async () => {
    throw error;
  };
  await assert.rejects(runScript("print('a')\nprint('b')\nwhile True: pass", { onPrint: refuse }), (thrown) => thrown === error);
});

test('a script that does not parse has its place', async () => {
  await assert.rejects(runScript('a = 1\nb = ('), (error) => {
    assert.ok(error instanceof airlock.ScriptSyntaxError);
    assert.equal(error.name, 'ScriptSyntaxError');
    assert.equal(error.kind, 'syntax');
    assert.ok([1, 2].includes(error.line));
    return true;
  });
});

test('an exception in a script has its place and is not that of the program', async () => {
  await assert.rejects(runScript('a = 1\n\na / 0'), (error) => {
    assert.equal(error.constructor, airlock.ScriptError);
    assert.deepEqual([error.kind, error.line], ['runtime', 3]);
    assert.match(error.rendered, /ZeroDivisionError/);
    assert.ok(!('cause' in error));
    return true;
  });
});

test('the program is not reachable from a script', async () => {
  const scripts = [
    'import subprocess', "open('/etc/passwd').read()", "__import__('sys')", '().__class__.__bases__[0].__subclasses__()', 'process', 'require',
  ];
  for (const code of scripts) await assert.rejects(runScript(code), airlock.ScriptError);
});

test('the module can be required', async () => {
  const { createRequire } = await import('node:module');
  const required = createRequire(import.meta.url)('airlock-gateway');
  assert.deepEqual(Object.keys(airlock).sort(), Object.keys(required).sort());
  assert.equal(required.runScript, runScript);
});

/** Returns a value whose objects all have the same prototype. */
function plain(value) {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
