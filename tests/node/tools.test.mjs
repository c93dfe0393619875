/** Functions as tools: their schemas, their arguments and results, and what they throw. */

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';

import * as airlock from 'airlock-gateway';
import { z } from 'zod';

import { anyTool, deferred } from './support.mjs';

const { runScript, tool } = airlock;

const order = z.object({ item: z.string(), count: z.int().min(1).default(1) });

/** Runs a script with one tool. */
const using = (made, code, more = {}) => runScript(code, { tools: [made], ...more });

test('a schema of zod is the schema of the tool', () => {
  const { inputSchema } = tool({ name: 'order', parameters: order, execute: () => null });
  assert.deepEqual(Object.keys(inputSchema.properties), ['item', 'count']);
  assert.deepEqual(inputSchema.required, ['item']);
  assert.equal(inputSchema.properties.count.default, 1);
});

test('what zod makes of a schema is taken like the schema', async () => {
  const made = tool({ name: 'order', parameters: z.toJSONSchema(order), execute: (given) => given });
  assert.deepEqual(await using(made, "order('tea', 2)"), { item: 'tea', count: 2 });
});

test('arguments arrive as zod converts them', async () => {
  const parameters = order.extend({
    when: z.string().transform((text) => new Date(text)).optional(),
    word: z.string().trim().default('none'),
  });
  let seen;
  const made = tool({ name: 'order', parameters, execute: (given) => void (seen = given) });
  assert.equal(await using(made, "order('tea', when='2026-01-02T03:04:05Z', word=' a ')"), null);
  assert.deepEqual(seen, { item: 'tea', count: 1, when: new Date('2026-01-02T03:04:05Z'), word: 'a' });
});

test('a check of zod that JSON Schema does not have is a failure of the call', async () => {
  const parameters = z.object({ a: z.number(), b: z.number() }).refine(({ a, b }) => a < b, { message: 'a is not below b', path: ['a'] });
  const made = tool({ name: 'between', parameters, execute: () => assert.fail('it is called') });
  await assert.rejects(using(made, 'between(2, 1)'), (error) => {
    assert.ok(error instanceof airlock.ToolFailed);
    assert.equal(error.code, 'TypeError');
    assert.match(error.message, /a: a is not below b/);
    return true;
  });
});

test('definitions that cannot be tools are refused', () => {
  const good = { name: 'a', execute: () => 1 };
  const without = { '~standard': { version: 1, vendor: 'a', validate: () => ({ value: 1 }) } };
  const wrong = [
    { ...good, name: undefined }, { ...good, name: 1 }, { ...good, execute: undefined }, { ...good, execute: 'a' },
    { ...good, parameters: 'a' }, { ...good, parameters: null }, { ...good, description: 1 },
    { ...good, needsApproval: 'yes' }, { ...good, needsApproval: () => true },
    { ...good, needs_approval: true }, { ...good, parameters: without }, { ...good, parameters: z.object({ a: z.map(z.string(), z.string()) }) },
    null, () => 1, [good],
  ];
  for (const definition of wrong) assert.throws(() => tool(definition), airlock.BadTool);
});

test('tools that scripts cannot use are refused', async () => {
  const answer = (name, more) => tool({ name, execute: () => 1, ...more });
  for (const name of ['print', 'for', 'a b', 'result', 'größe', '']) await assert.rejects(using(answer(name), '1'), airlock.BadTool);
  await assert.rejects(using(answer('a', { parameters: { type: 'nothing' } }), '1'), airlock.BadTool);
  await assert.rejects(using(answer('a', { parameters: { type: 'object', default: 1n } }), '1'), airlock.BadTool);
  await assert.rejects(runScript('1', { tools: [answer('a'), answer('a')] }), airlock.BadTool);
  for (const tools of [[{ name: 'a', execute: () => 1 }], [() => 1], 5, {}]) await assert.rejects(runScript('1', { tools }), airlock.BadTool);
  await assert.rejects(using(answer('a', { parameters: { toJSON() {} } }), '1'), airlock.BadTool);
});

test('arguments are passed by position and by name', async () => {
  const properties = { a: { type: 'integer' }, b: { type: 'integer' }, c: { type: 'integer' } };
  const made = tool({ name: 'show', parameters: { type: 'object', properties, required: ['a'] }, execute: (given) => given });
  const shown = await using(made, '[show(1), show(1, 5), show(1, c=4), show(b=1, a=0)]');
  assert.deepEqual(shown, [{ a: 1 }, { a: 1, b: 5 }, { a: 1, c: 4 }, { b: 1, a: 0 }]);
  assert.equal(await using(tool({ name: 'none', execute: (given) => Object.keys(given).length }), 'none()'), 0);
});

test('arguments that do not fit do not reach the function', async () => {
  const made = tool({ name: 'double', parameters: z.strictObject({ value: z.int() }), execute: () => assert.fail('it is called') });
  for (const call of ["double('a')", 'double()', 'double(1, other=2)', 'double(value=None)']) {
    await assert.rejects(using(made, call), (error) => error instanceof airlock.ScriptError && !('cause' in error));
  }
});

test('arguments beyond 53 bits are BigInts', async () => {
  let seen;
  const made = anyTool('see', ({ value }) => void (seen = value));
  await using(made, "see([2 ** 60, 'n1'])");
  assert.deepEqual(seen, [2n ** 60n, 'n1']);
});

test('results arrive as JSON, and undefined as None', async () => {
  for (const [result, value] of [[undefined, null], [[1, 'a'], [1, 'a']], [new Uint8Array([1, 2]), 'AQI='], [2n ** 60n, 2n ** 60n]]) {
    assert.deepEqual(await using(anyTool('give', () => result), 'give()'), value);
    assert.deepEqual(await using(anyTool('give', async () => result), 'give()'), value);
  }
});

test('a result without a JSON form is a failure of the call', async () => {
  for (const result of [NaN, 2n ** 64n, () => 1, [Promise.resolve(1)], '\ud800']) {
    const failing = using(anyTool('give', () => result), 'give()');
    await assert.rejects(failing, (error) => error instanceof airlock.ToolFailed && error.cause instanceof TypeError);
  }
});

test('an error is a failure of the call and the cause for the caller', async () => {
  class Refused extends Error {}
  const expected = [[new RangeError('first'), 'RangeError'], [new Refused('first'), 'Refused'], [new Error('first'), 'Error'], ['first', 'Error']];
  for (const [thrown, code] of expected) {
    const refuse = () => {
      throw thrown;
    };
    for (const execute of [refuse, async () => refuse()]) {
      await assert.rejects(using(anyTool('refuse', execute), 'refuse()\n'), (error) => {
        assert.ok(error instanceof airlock.ToolFailed && error instanceof airlock.ScriptError);
        assert.deepEqual([error.tool, error.code, error.kind, error.line], ['refuse', code, 'tool', 1]);
        assert.equal(error.cause, thrown);
        return true;
      });
    }
  }
});

test('errors that cannot be read are failures of the call', async () => {
  const hostile = Object.defineProperty(new Error('a'), 'message', {
    get() {
      throw new Error('b');
    },
  });
  for (const thrown of [undefined, null, Symbol('a'), Object.create(null), hostile]) {
    const refuse = () => {
      throw thrown;
    };
    await assert.rejects(using(anyTool('refuse', refuse), 'refuse()'), airlock.ToolFailed);
  }
});

test('a script can handle a failure, and the cause is that of the one that it did not handle', async () => {
  const refuse = tool({
    name: 'refuse',
    parameters: z.object({ value: z.string() }),
    execute: ({ value }) => {
      throw new RangeError(value);
    },
  });
  const handled = 'try:\n        refuse(value)\n    except ToolError as e:\n        seen.append([e.code, e.message])\n';
  const code = `seen = []\nfor value in ['a', 'b']:\n    ${handled}`;
  assert.deepEqual(await using(refuse, `${code}result = seen`), [['RangeError', 'RangeError: a'], ['RangeError', 'RangeError: b']]);
  await assert.rejects(using(refuse, `${code}refuse('c')`), (error) => error.cause.message === 'c');
  const many = `for n in range(200):\n    try:\n        refuse('a')\n    except ToolError: pass\nrefuse('last')`;
  await assert.rejects(using(refuse, many), (error) => error.cause.message === 'last');
});

test('calls at the same time run at the same time', async () => {
  const arrived = [];
  const all = deferred();
  const meet = anyTool('meet', async ({ value }) => {
    arrived.push(value);
    if (arrived.length === 3) all.resolve();
    await all.promise;
    return value;
  });
  const code = 'import asyncio\nawait asyncio.gather(meet(1), meet(2), meet(3))';
  assert.deepEqual(await using(meet, code), [1, 2, 3]);
});

test('the number of calls at the same time is bounded', async () => {
  let running = 0;
  let most = 0;
  const call = anyTool('call', async () => {
    running += 1;
    most = Math.max(most, running);
    for (let turns = 0; turns < 5; turns += 1) await turn();
    running -= 1;
  });
  const code = 'import asyncio\nawait asyncio.gather(*[call() for _ in range(20)])\nresult = 1';
  assert.equal(await using(call, code, { limits: { parallelCalls: 3 } }), 1);
  assert.ok(most <= 3, String(most));
});

test('tools run in the asynchronous context of their caller', async () => {
  const storage = new AsyncLocalStorage();
  const look = anyTool('look', () => storage.getStore() ?? null);
  const seen = await Promise.all(['a', 'b'].map((name) => storage.run(name, () => using(look, '[look(), look()]'))));
  assert.deepEqual(seen, [['a', 'a'], ['b', 'b']]);
});

test('a tool may run a script', async () => {
  const inner = anyTool('inner', ({ value }) => value * 2);
  const outer = anyTool('outer', ({ value }) => runScript('inner(value) + 1', { tools: [inner], inputs: { value } }));
  assert.equal(await using(outer, 'outer(20)'), 41);
});

test('the same tools are prepared once, in whichever list they are', async () => {
  const [a, b] = ['a', 'b'].map((name) => anyTool(name, () => name));
  for (const tools of [[a], [a, b], [b, a], new Set([b]), [a]]) {
    const [first] = tools;
    assert.equal(await runScript(`${first.name}()`, { tools }), first.name);
  }
});

test('a tool cannot be changed', () => {
  const made = anyTool('a', () => 1);
  assert.throws(() => {
    made.needsApproval = false;
  }, TypeError);
});
