/** Signals that stop scripts, and limits that cancel the calls of tools. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as airlock from 'airlock-gateway';

import { anyTool, deferred } from './support.mjs';

const { runScript, startScript } = airlock;
const LIMITS = { cpuSeconds: 600, seconds: 600 };

/** Starts a script that calls `begin`, and stops it then. Returns the signal of the call. */
async function stopped(code, reason) {
  const controller = new AbortController();
  let call;
  const begin = anyTool('begin', (given, context) => {
    call = context.signal;
    controller.abort(reason);
  });
  const forever = anyTool('forever', (given, context) => {
    call = context.signal;
    controller.abort(reason);
    return new Promise(() => {});
  });
  const running = runScript(code, { tools: [begin, forever], limits: LIMITS, signal: controller.signal });
  await assert.rejects(running, (error) => error === controller.signal.reason);
  return call;
}

test('a signal stops a script that computes', async () => {
  await stopped('begin()\nwhile True: pass');
});

test('a signal stops a script that waits for a tool, and the tool is told', async () => {
  const call = await stopped('forever()');
  assert.ok(call.aborted);
});

test('the reason of the signal is that of the rejection', async () => {
  await stopped('forever()', 'enough');
  await stopped('forever()', new RangeError('enough'));
});

test('a signal that was aborted before stops a script at once', async () => {
  const tool = anyTool('begin', () => assert.fail('it is called'));
  await assert.rejects(runScript('begin()', { tools: [tool], signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('a signal that is aborted afterwards does nothing', async () => {
  const controller = new AbortController();
  assert.equal(await runScript('1', { signal: controller.signal }), 1);
  controller.abort();
  assert.equal(await runScript('2'), 2);
});

test('a timeout is a signal', async () => {
  await assert.rejects(runScript('while True: pass', { limits: LIMITS, signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' });
});

test('a resumed run is stopped by a signal', async () => {
  const controller = new AbortController();
  const pay = anyTool('pay', () => controller.abort(), { needsApproval: true });
  const run = await startScript('pay()\nwhile True: pass', { tools: [pay], limits: LIMITS });
  run.approve();
  await assert.rejects(run.resume({ signal: controller.signal }), { name: 'AbortError' });
});

test('a limit cancels the calls that the script waits for', async () => {
  const told = deferred();
  const wait = anyTool('wait', (given, { signal }) => {
    signal.addEventListener('abort', () => told.resolve());
    return new Promise(() => {});
  });
  await assert.rejects(runScript('wait()', { tools: [wait], limits: { seconds: 1 } }), { limit: 'seconds' });
  await told.promise;
});

test('the result of a call that was cancelled is ignored', async () => {
  const late = deferred();
  const wait = anyTool('wait', () => late.promise);
  await assert.rejects(runScript('wait()', { tools: [wait], limits: { seconds: 1 } }), airlock.LimitExceeded);
  late.resolve(1);
  assert.equal(await runScript('1'), 1);
});

test('the event loop goes on while a script computes', async () => {
  const order = [];
  const begun = deferred();
  const begin = anyTool('begin', () => begun.resolve());
  const running = runScript('begin()\nwhile True: pass', { tools: [begin], limits: { cpuSeconds: 2 } }).catch(() => order.push('script'));
  await begun.promise;
  setImmediate(() => order.push('program'));
  await running;
  assert.deepEqual(order, ['program', 'script']);
});
