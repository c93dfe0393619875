/** Many runs at the same time, threads, and the end of the process. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { runScript, startScript } from 'airlock-gateway';

import { PLACE, WAIT_MS, anyTool, runProgram } from './support.mjs';

const double = anyTool('double', ({ value }) => value * 2);

/** Makes a thread that runs a module. Its packages are those of this directory. */
function thread(source) {
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(source.replaceAll('airlock-gateway', `file://${PLACE}index.mjs`))}`));
}

/** Runs a program, which must print these lines and end. */
async function check(source, output) {
  const done = await runProgram(source);
  assert.deepEqual([done.code, done.errors, done.output], [0, '', output]);
}

test('many scripts run at the same time', async () => {
  const runs = Array.from({ length: 200 }, (_, number) => runScript('double(number) + 1', { tools: [double], inputs: { number } }));
  assert.deepEqual(await Promise.all(runs), Array.from({ length: 200 }, (_, number) => number * 2 + 1));
});

test('scripts in each other end at their limit', async () => {
  for (const code of ['again()', 'import asyncio\nresult = (await asyncio.gather(again()))[0]']) {
    let calls = 0;
    const again = anyTool('again', async () => {
      calls += 1;
      return runScript(code, { tools: [again], limits: { nesting: 3 } }).catch((error) => error.limit);
    });
    assert.equal(await runScript(code, { tools: [again], limits: { nesting: 3 } }), 'nesting');
    assert.equal(calls, 3);
    assert.equal(await runScript('1', { limits: { nesting: 1 } }), 1);
  }
});

test('a resumed run is nested in the run of its tool', async () => {
  const pay = anyTool('pay', () => 1, { needsApproval: true });
  const outer = anyTool('outer', async () => {
    const run = await startScript('pay()', { tools: [pay], limits: { nesting: 2 } });
    run.approve();
    return (await run.resume()).value;
  });
  assert.equal(await runScript('outer()', { tools: [outer] }), 1);
});

test('threads run scripts with tools of their own', async () => {
  const source = `
    import { parentPort } from 'node:worker_threads';
    import { runScript, tool } from 'airlock-gateway';
    const add = tool({ name: 'add', parameters: { type: 'object', properties: { a: {}, b: {} } }, execute: async ({ a, b }) => a + b });
    parentPort.postMessage(await runScript('add(add(1, 2), 3)', { tools: [add] }));
  `;
  const messages = await Promise.all([1, 2, 3].map(() => once(thread(source), 'message')));
  assert.deepEqual(messages.flat(), [6, 6, 6]);
});

test('a thread that is terminated takes its runs along', async () => {
  const worker = thread(`
    import { parentPort } from 'node:worker_threads';
    import { runScript, tool } from 'airlock-gateway';
    const begin = tool({ name: 'begin', execute: () => parentPort.postMessage('begun') });
    await runScript('begin()\\nwhile True: pass', { tools: [begin], limits: { cpuSeconds: 600, seconds: 600 } });
  `);
  await once(worker, 'message');
  await worker.terminate();
  assert.equal(await runScript('double(2)', { tools: [double] }), 4);
});

test('a thread that is terminated takes its gateway along, with a call that runs', async (context) => {
  const directory = await mkdtemp(join(tmpdir(), 'airlock-'));
  context.after(() => rm(directory, { recursive: true }));
  const config = { store: join(directory, 'airlock.db'), server: { listen: '127.0.0.1:0' } };
  const worker = thread(`
    import { parentPort } from 'node:worker_threads';
    import { Gateway, tool } from 'airlock-gateway';
    const begin = tool({ name: 'begin', execute: () => { parentPort.postMessage(address); return new Promise(() => {}); } });
    const gateway = await Gateway.start(${JSON.stringify(config)}, { tools: [begin] });
    const address = await gateway.serve();
    await gateway.call('internal-begin');
  `);
  const [address] = await once(worker, 'message');
  await worker.terminate();
  const serves = () => fetch(`http://${address}/health`).then(() => true, () => false);
  const end = Date.now() + WAIT_MS;
  while (await serves()) assert.ok(Date.now() < end, 'the gateway still serves');
});

test('a program waits for its runs, and ends after them', async () => {
  await check(`
    import { runScript, tool } from 'airlock-gateway';
    const one = tool({ name: 'one', execute: async () => 1 });
    runScript('one()', { tools: [one] }).then(console.log);
  `, '1\n');
});

test('a program ends while a run waits for a decision', async () => {
  await check(`
    import { startScript, tool } from 'airlock-gateway';
    const pay = tool({ name: 'pay', needsApproval: true, execute: () => 1 });
    const run = await startScript('print(1)\\npay()', { tools: [pay], onPrint: console.log });
    console.log(run.pending.length);
  `, '1\n1\n');
});

test('a program ends by its own will while a script runs', async () => {
  await check(`
    import { runScript, tool } from 'airlock-gateway';
    const end = tool({ name: 'end', execute: () => {
      console.log('end');
      setImmediate(() => process.exit(0));
    } });
    await runScript('end()\\nwhile True: pass', { tools: [end] });
  `, 'end\n');
});

test('an error that nothing handles ends the program with its trace', async () => {
  const done = await runProgram(`
    import { runScript } from 'airlock-gateway';
    await runScript('1 / 0');
  `);
  assert.notEqual(done.code, 0);
  assert.match(done.errors, /ScriptError/);
});
