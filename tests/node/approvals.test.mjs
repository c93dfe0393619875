/** Runs that wait for an approval: decisions, dumps, other processes, replay. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import * as airlock from 'airlock-gateway';
import { z } from 'zod';

import { runProgram } from './support.mjs';

const { loadRun, replay, runScript, startScript, tool } = airlock;
const CODE = 'paid = [pay(10), pay(20)]\nresult = {"paid": paid, "seen": look()}';

/** Makes a tool that needs an approval and one that does not, with the calls that were made. */
function shop() {
  const calls = [];
  const pay = tool({
    name: 'pay',
    parameters: z.object({ amount: z.int() }),
    needsApproval: true,
    execute: ({ amount }) => {
      calls.push(amount);
      return `paid ${amount}`;
    },
  });
  const look = tool({ name: 'look', execute: () => calls.push('look') });
  return { calls, tools: [pay, look] };
}

const pending = (run) => run.pending.map((call) => call.arguments);

test('each call waits and is made once after its approval', async () => {
  const { calls, tools } = shop();
  let run = await startScript(CODE, { tools });
  assert.equal(run.done, false);
  assert.equal(run.usage, undefined);
  assert.deepEqual(run.pending, [{ id: run.pending[0].id, tool: 'pay', arguments: { amount: 10 } }]);
  assert.deepEqual(calls, []);
  run.approve();
  assert.deepEqual(run.pending, []);
  run = await run.resume();
  assert.deepEqual(pending(run), [{ amount: 20 }]);
  assert.deepEqual(calls, [10]);
  run.approve(run.pending[0].id);
  run = await run.resume();
  assert.equal(run.done, true);
  assert.deepEqual(run.value, { paid: ['paid 10', 'paid 20'], seen: 3 });
  assert.deepEqual(calls, [10, 20, 'look']);
  assert.equal(run.usage.calls, 3);
  assert.ok(run.usage.fuel > 0 && run.usage.peakMemory > 0);
});

test('a denied call is not made and the script receives the reason', async () => {
  const { calls, tools } = shop();
  const code = 'try:\n    pay(10)\nexcept ToolError as e:\n    result = [e.code, e.message]';
  let run = await startScript(code, { tools });
  run.deny(run.pending[0].id, 'too much');
  run = await run.resume();
  assert.equal(run.value[0], 'airlock.approval_denied');
  assert.match(run.value[1], /too much/);
  assert.deepEqual(calls, []);
  run = await startScript('pay(10)', { tools });
  run.deny();
  await assert.rejects(run.resume(), { name: 'ToolFailed', tool: 'pay', code: 'airlock.approval_denied' });
});

test('calls that are made at once are decided about together', async () => {
  const { tools } = shop();
  const run = await startScript('import asyncio\nawait asyncio.gather(pay(1), pay(2))', { tools });
  const [first, second] = run.pending;
  run.approve(second.id);
  assert.deepEqual(pending(run), [{ amount: 1 }]);
  run.deny([first.id], 'no');
  assert.deepEqual(pending(run), []);
  await assert.rejects(run.resume(), airlock.ToolFailed);
});

test('a call without a decision waits on', async () => {
  const begun = await startScript('pay(1)', { tools: shop().tools });
  const run = await begun.resume();
  assert.deepEqual(pending(run), [{ amount: 1 }]);
});

test('an unknown call is refused', async () => {
  const run = await startScript('pay(1)', { tools: shop().tools });
  for (const id of [99, -1, 1.5, '1', 2 ** 40]) {
    assert.throws(() => run.approve(id), airlock.AirlockError);
    assert.throws(() => run.deny(id), airlock.AirlockError);
    assert.throws(() => run.approve([1, id]), airlock.AirlockError);
    assert.throws(() => run.deny([1, id]), airlock.AirlockError);
  }
  assert.deepEqual(pending(run), [{ amount: 1 }], 'none of the calls is decided about');
  assert.throws(() => run.deny([], 5), airlock.AirlockError);
});

test('an empty selection decides about no call', async () => {
  const { calls, tools } = shop();
  const run = await startScript('pay(1)', { tools });
  run.approve([]);
  run.deny([]);
  assert.deepEqual(pending(run), [{ amount: 1 }]);
  for (const answer of [undefined, null, true, '1', [undefined], [null]]) {
    assert.throws(() => run.approve(answer), { name: 'AirlockError', message: /must be a number/ });
  }
  assert.throws(() => run.approve(1, 1), airlock.AirlockError);
  assert.deepEqual(pending(await run.resume()), [{ amount: 1 }]);
  assert.deepEqual(calls, []);
});

test('several calls are approved by their ids alone', async () => {
  const { tools } = shop();
  const code = 'import asyncio\nawait asyncio.gather(pay(1), pay(2), pay(3))';
  let run = await startScript(code, { tools });
  assert.throws(() => run.approve(), { name: 'AirlockError', message: /3 calls wait/ });
  assert.throws(() => run.approve(...[]), { name: 'AirlockError', message: /3 calls wait/ });
  assert.equal(run.pending.length, 3);
  run.approve(run.pending.slice(1).map((call) => call.id));
  assert.deepEqual(pending(run), [{ amount: 1 }]);
  run.approve();
  assert.deepEqual((await run.resume()).value, ['paid 1', 'paid 2', 'paid 3']);
  run = await startScript(code, { tools });
  run.deny(undefined, 'too much');
  assert.deepEqual(run.pending, []);
});

test('a run is used up when it is resumed', async () => {
  const run = await startScript('pay(1)', { tools: shop().tools });
  run.approve();
  assert.throws(() => run.value, { name: 'ApprovalNeeded', message: /`resume`/ });
  await run.resume();
  assert.throws(() => run.value, { name: 'ApprovalNeeded', message: /`resume`/ });
  await assert.rejects(run.resume(), airlock.AirlockError);
  assert.throws(() => run.dump(), airlock.AirlockError);
  assert.throws(() => run.approve(1), airlock.AirlockError);
  assert.throws(() => run.approve(), airlock.AirlockError);
  assert.throws(() => run.deny(), airlock.AirlockError);
});

test('a script without a run fails with the run', async () => {
  const { tools } = shop();
  const needed = await runScript('pay(1)', { tools }).catch((error) => error);
  assert.ok(needed instanceof airlock.ApprovalNeeded);
  needed.run.approve();
  const run = await needed.run.resume();
  assert.equal(run.value, 'paid 1');
  assert.throws(() => run.dump(), airlock.AirlockError);
  const waiting = await startScript('pay(1)', { tools });
  assert.throws(() => waiting.value, airlock.ApprovalNeeded);
});

test('arguments that do not fit are refused before a person is asked', async () => {
  await assert.rejects(startScript("pay('a')", { tools: shop().tools }), airlock.ToolFailed);
});

test('printed text is not repeated', async () => {
  const lines = [];
  let run = await startScript("print('a')\npay(1)\nprint('b')", { tools: shop().tools, onPrint: (line) => lines.push(line) });
  assert.deepEqual([lines, run.output], [['a'], 'a']);
  run.approve();
  run = await run.resume();
  assert.deepEqual([lines, run.output], [['a', 'b'], 'a\nb']);
});

test('a run is resumed in another process', async () => {
  const { calls, tools } = shop();
  let run = await startScript(CODE, { tools });
  run.approve();
  run = await run.resume();
  const dump = run.dump();
  assert.equal(dump.constructor, Uint8Array);
  const program = `
    import { buffer } from 'node:stream/consumers';
    import { loadRun, tool } from 'airlock-gateway';
    import { z } from 'zod';
    ${shop}
    const { calls, tools } = shop();
    const run = loadRun(await buffer(process.stdin), { tools });
    run.approve();
    console.log(JSON.stringify([(await run.resume()).value, calls]));
  `;
  const done = await runProgram(program, { input: dump });
  assert.equal(done.code, 0, done.errors);
  assert.deepEqual(JSON.parse(done.output), [{ paid: ['paid 10', 'paid 20'], seen: 2 }, [20, 'look']]);
  assert.deepEqual(calls, [10]);
});

test('a dump that was changed is refused', async () => {
  const { tools } = shop();
  const dump = (await startScript('pay(1)', { tools })).dump();
  const changed = Uint8Array.from(dump);
  changed[changed.length >> 1] ^= 1;
  for (const damaged of [new Uint8Array(), new Uint8Array(1), dump.subarray(0, -1), new Uint8Array([...dump, 0]), changed]) {
    assert.throws(() => loadRun(damaged, { tools }), airlock.BadDump);
  }
  for (const wrong of ['a', undefined, [1, 2]]) assert.throws(() => loadRun(wrong, { tools }), airlock.AirlockError);
});

test('a dump that would take far more memory than its bytes is refused', async () => {
  const [version, , document] = Buffer.from((await startScript('1')).dump()).toString().split('\n');
  const swelling = `{"more":[${'{"":0},'.repeat(1_600_000)}0],${document.slice(1)}`;
  const digest = createHash('sha256').update(swelling).digest('hex');
  const hostile = Buffer.from([version, digest, swelling].join('\n'));
  assert.throws(() => loadRun(hostile), { name: 'BadDump', message: /memory/ });
  await assert.rejects(replay(hostile), { name: 'BadDump', message: /memory/ });
});

test('more bytes than a dump has are refused', async () => {
  const bytes = new Uint8Array(2 ** 28 + 1);
  assert.throws(() => loadRun(bytes), { name: 'BadDump', message: /268435456/ });
  await assert.rejects(replay(bytes), { name: 'BadDump', message: /268435456/ });
});

test('other tools than those of the run are refused', async () => {
  const dump = (await startScript('pay(1)', { tools: shop().tools })).dump();
  const other = tool({ name: 'pay', parameters: z.object({ amount: z.string() }), needsApproval: true, execute: () => 1 });
  for (const tools of [[], [other]]) assert.throws(() => loadRun(dump, { tools }), airlock.BadDump);
});

test('a finished run is replayed without its tools', async () => {
  const { calls, tools } = shop();
  const run = await startScript('look() + look()', { tools });
  const replayed = await replay(run.dump());
  assert.deepEqual([replayed.value, replayed.usage], [run.value, run.usage]);
  assert.deepEqual(calls, ['look', 'look']);
});

test('a run that waits cannot be replayed and a finished one not be loaded', async () => {
  const { tools } = shop();
  await assert.rejects(replay((await startScript('pay(1)', { tools })).dump()), airlock.BadDump);
  const finished = (await startScript('look()', { tools })).dump();
  assert.throws(() => loadRun(finished, { tools }), airlock.BadDump);
});
