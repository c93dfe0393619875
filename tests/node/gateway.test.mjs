/** A gateway within the program: tools, a model, approvals, HTTP, mistakes. */

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import * as airlock from 'airlock-gateway';
import { z } from 'zod';

import { pendingFrom } from '../lib/pending.js';
import { anyTool, deferred, runProgram } from './support.mjs';

const { Gateway, ModelError, tool } = airlock;
const CALL = { id: 'call_1', type: 'function', function: { name: 'internal-price', arguments: '{"item": "tea"}' } };
const QUESTION = [{ role: 'user', content: 'What does tea cost?' }];

const price = tool({
  name: 'price',
  description: 'Returns the price of an item.',
  parameters: z.object({ item: z.string() }),
  execute: ({ item }) => {
    const known = { tea: 3.5, cake: 4.5 }[item];
    if (known === undefined) throw new RangeError(`no ${item}`);
    return known;
  },
});
const describe = tool({ name: 'describe', parameters: z.object({ item: z.string() }), execute: ({ item }) => ({ item, price: 3.5 }) });
const order = tool({
  name: 'order',
  parameters: z.object({ item: z.string(), count: z.int() }),
  needsApproval: true,
  execute: ({ item, count }) => `ordered ${count} ${item}`,
});

/** Stands for a model that calls a tool and repeats its result. */
function askOnce({ messages }) {
  const last = messages.at(-1);
  return last.role === 'tool' ? `It costs ${last.content}.` : { tool_calls: [CALL] };
}

/** Yields an item without end. */
function* endless(item) {
  for (;;) yield item;
}

let directory;
let stores = 0;
before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'airlock-'));
});
after(() => rm(directory, { recursive: true }));

/** Returns a configuration with a store of its own. */
const config = (keys = {}) => ({ store: join(directory, `${(stores += 1)}.db`), ...keys });

/** Runs a test with a gateway. */
async function within(keys, options, body) {
  const gateway = await Gateway.start(config(keys), options);
  try {
    await body(gateway);
  } finally {
    await gateway.close();
  }
}

/** Returns the error of a promise, which is of this class. */
async function refused(promise, Class) {
  const error = await promise.then(() => assert.fail('it succeeds'), (rejected) => rejected);
  assert.ok(error instanceof Class && error.name === Class.name, error);
  return error;
}

test('functions are tools of the gateway', () => within({}, { tools: [price, describe] }, async (gateway) => {
  const tools = await gateway.tools({ tools: ['internal-*'] });
  assert.deepEqual(tools.map(({ name }) => name), ['internal-describe', 'internal-price']);
  assert.equal(tools[1].description, 'Returns the price of an item.');
  assert.deepEqual(tools[1].inputSchema.required, ['item']);
  assert.equal((await gateway.call('internal-price', { item: 'tea' })).text, '3.5');
  assert.deepEqual((await gateway.call('internal-describe', { item: 'cake' })).data, { item: 'cake', price: 3.5 });
}));

test('a configuration may be a file', async () => {
  const file = join(directory, 'airlock.json');
  await writeFile(file, JSON.stringify(config()));
  const gateway = await Gateway.start(file, { tools: [price] });
  assert.equal((await gateway.call('internal-price', { item: 'tea' })).text, '3.5');
  await gateway.close();
});

test('a plugin that is not loaded is in the log that a program asks for', async () => {
  const client = { name: 'lost', connection_type: 'wasm', wasm_config: { component: join(directory, 'lost.wasm') }, tools_to_execute: ['*'] };
  const source = `
    import { Gateway } from 'airlock-gateway';
    const gateway = await Gateway.start(${JSON.stringify(config({ mcp: { client_configs: [client] } }))});
    await gateway.close();`;
  const logged = await runProgram(source, { env: { NODE_DEBUG: 'airlock' } });
  assert.match(logged.errors, /^AIRLOCK \d+: warning: plugin not loaded .*lost/m);
  const silent = await runProgram(source, { env: { NODE_DEBUG: '' } });
  assert.deepEqual([silent.code, silent.errors], [0, '']);
});

test('a call that fails tells why', () => within({}, { tools: [price] }, async (gateway) => {
  assert.equal((await refused(gateway.call('internal-price', { item: 'milk' }), airlock.CallFailed)).code, 'RangeError');
  assert.equal((await refused(gateway.call('internal-price', { item: 7 }), airlock.CallFailed)).kind, 'invalid_input');
  assert.equal((await refused(gateway.call('internal-other'), airlock.CallFailed)).kind, 'not_found');
}));

test('a script calls functions in code mode', () => within({}, { tools: [price], codeMode: true }, async (gateway) => {
  const done = await gateway.runScript("result = internal.price(item='tea')", { language: 'starlark' });
  assert.match(done.text, /3\.5/);
  await refused(gateway.runScript('result = 1 // 0', { language: 'starlark' }), airlock.CallFailed);
}));

test('a call that needs an approval waits for it', () => within({}, { tools: [order] }, async (gateway) => {
  const { pending } = await refused(gateway.call('internal-order', { item: 'tea', count: 2 }), airlock.ApprovalPending);
  assert.deepEqual(pending.calls, [{ tool: 'internal-order', arguments: { item: 'tea', count: 2 } }]);
  assert.deepEqual((await gateway.pending()).map(({ id, calls }) => [id, calls]), [[pending.id, pending.calls]]);
  await gateway.approve(pending.id);
  assert.equal((await gateway.resume(pending.id)).text, 'ordered 2 tea');
  assert.deepEqual(await gateway.pending(), []);
  assert.equal((await gateway.call('internal-order', { item: 'cake', count: 1 }, { approving: true })).text, 'ordered 1 cake');
}));

test('the calls of a script that are approved as one are shown as lines', async () => {
  const mcp = { tool_manager_config: { code_mode_approval: 'manifest' } };
  await within({ mcp }, { tools: [order], codeMode: true }, async (gateway) => {
    const code = "result = internal.order(item='tea', count=2)";
    const { pending } = await refused(gateway.runScript(code, { language: 'starlark' }), airlock.ApprovalPending);
    const [call] = pending.calls;
    assert.equal(call.tool, 'executeToolCode');
    assert.match(call.manifest.join('\n'), /^internal\.order\(.*\): at most once$/);
    assert.deepEqual((await gateway.pending()).map(({ calls }) => calls), [pending.calls]);
    await gateway.approve(pending.id);
    assert.match((await gateway.resume(pending.id)).text, /ordered 2 tea/);
  });
});

test('what a call that waits has is named as in this language', () => {
  const asked = [{ guard: 'mail', reason: 'to others' }];
  const call = { tool: 'mail-send', arguments: {}, sources: ['crm', 'web'] };
  const described = { ...call, argument_sources: { '': [], to: ['crm'] }, asked_by: asked };
  const pending = { id: 'run_1.1', caller: 'anonymous', calls: [described, call] };
  const expected = { ...call, argumentSources: { '': [], to: ['crm'] }, askedBy: asked };
  assert.deepEqual(pendingFrom(pending), { ...pending, calls: [expected, call] });
});

test('a call that was denied is not made', () => within({}, { tools: [order] }, async (gateway) => {
  const { pending } = await refused(gateway.call('internal-order', { item: 'tea', count: 2 }), airlock.ApprovalPending);
  await gateway.deny(pending.id, 'too much tea', { operator: true });
  assert.equal((await refused(gateway.resume(pending.id), airlock.CallFailed)).kind, 'denied');
}));

test('a function is a model that calls functions', () => within({}, { tools: [price], onModel: askOnce }, async (gateway) => {
  const reply = await gateway.chat(QUESTION, { model: 'own/shop' });
  assert.equal(reply.text, 'It costs 3.5.');
  assert.equal(reply.object, 'chat.completion');
  assert.ok('airlock' in reply);
}));

test('the model receives the settings and the tools', async () => {
  const requests = [];
  const onModel = (request) => {
    requests.push(request);
    return 'yes';
  };
  await within({}, { tools: [price], onModel }, (gateway) => gateway.chat(QUESTION, { model: 'own/shop', settings: { temperature: 0.5 } }));
  const [{ model, temperature, tools }] = requests;
  assert.deepEqual([model, temperature, tools.map((one) => one.function.name)], ['shop', 0.5, ['internal-price']]);
});

test('a streamed chat has the pieces of the model', async () => {
  async function* onModel({ messages }) {
    const last = messages.at(-1);
    if (last.role !== 'tool') return yield { tool_calls: [{ index: 0, ...CALL }] };
    yield 'It ';
    yield { content: 'costs ' };
    yield { choices: [{ index: 0, delta: { content: last.content } }] };
  }
  await within({}, { tools: [price], onModel }, async (gateway) => {
    const chunks = [];
    for await (const chunk of await gateway.chatStream(QUESTION, { model: 'own/shop' })) chunks.push(chunk);
    assert.equal(chunks.map((chunk) => chunk.choices?.[0]?.delta?.content ?? '').join(''), 'It costs 3.5');
    const events = chunks.flatMap((chunk) => chunk.airlock?.event?.type ?? []);
    assert.deepEqual(events, ['call_started', 'call_ended', 'round']);
  });
});

test('leaving a streamed chat ends the model function', async () => {
  const left = deferred();
  function* onModel() {
    try {
      for (;;) yield 'again ';
    } finally {
      left.resolve();
    }
  }
  await within({}, { onModel }, async (gateway) => {
    const stream = await gateway.chatStream(QUESTION, { model: 'own/shop' });
    for await (const chunk of stream) if (chunk) break;
    await left.promise;
    assert.equal((await stream.next()).done, true);
  });
});

test('a model that fails fails the chat', async () => {
  const busy = () => {
    throw new ModelError('later', { status: 429, code: 'busy', retryAfter: 2 });
  };
  await within({}, { onModel: busy }, async (gateway) => {
    const { status, code, retryAfter } = await refused(gateway.chat(QUESTION, { model: 'own/shop' }), airlock.ChatFailed);
    assert.deepEqual([status, code, retryAfter], [429, 'busy', 2]);
  });
  const broken = async () => {
    throw new RangeError('no weights');
  };
  await within({}, { onModel: broken }, async (gateway) => {
    const { status, code } = await refused(gateway.chat(QUESTION, { model: 'own/shop' }), airlock.ChatFailed);
    assert.deepEqual([status, code], [502, 'RangeError']);
    await refused(gateway.chat([{ role: 7 }], { model: 'own/shop' }), airlock.BadConversation);
  });
});

test('seconds and a status that are no numbers are refused', async () => {
  await within({}, {}, async (gateway) => {
    for (const seconds of [true, '1', 1n, null, []]) {
      const error = await refused(gateway.tools({ seconds }), airlock.AirlockError);
      assert.match(error.message, /seconds must be a number/);
    }
  });
  for (const details of [{ status: true }, { status: '429' }, { status: null }, { retryAfter: true }, { retryAfter: null }]) {
    assert.throws(() => new ModelError('later', details), { name: 'AirlockError', message: /must be a number, not a value of type/ });
  }
});

test('a signal cancels the request and the call of the function', async () => {
  const begun = deferred();
  const ended = deferred();
  const forever = anyTool('forever', (_, { signal }) => {
    signal.addEventListener('abort', ended.resolve);
    begun.resolve();
    return new Promise(() => {});
  });
  await within({}, { tools: [forever] }, async (gateway) => {
    const controller = new AbortController();
    const calling = gateway.call('internal-forever', {}, { signal: controller.signal });
    await begun.promise;
    controller.abort(new Error('enough'));
    await assert.rejects(calling, /enough/);
    await ended.promise;
  });
});

test('functions run at the same time', async () => {
  const begun = deferred();
  const first = anyTool('first', () => {
    begun.resolve();
    return 'first';
  });
  // Never ends unless both run at the same time.
  const second = anyTool('second', async () => {
    await begun.promise;
    return 'second';
  });
  await within({}, { tools: [first, second] }, async (gateway) => {
    const calls = [gateway.call('internal-second'), gateway.call('internal-first')];
    assert.deepEqual((await Promise.all(calls)).map(({ text }) => text), ['second', 'first']);
  });
});

test('functions that call their gateway, and models that ask it, end at the depth of calls', async () => {
  let gateway;
  let made = 0;
  const again = anyTool('again', async () => {
    made += 1;
    return (await gateway.call('internal-again')).text;
  });
  async function* onModel() {
    made += 1;
    yield (await gateway.chat(QUESTION, { model: 'own/any' })).text;
  }
  await within({ mcp: { tool_manager_config: { max_call_depth: 3 } } }, { tools: [again], onModel }, async (started) => {
    gateway = started;
    const error = await refused(gateway.call('internal-again'), airlock.CallFailed);
    assert.match(error.message, /limit of 3 levels of nested calls/);
    assert.equal(made, 3);
    made = 0;
    await refused(gateway.chat(QUESTION, { model: 'own/any' }), airlock.ChatFailed);
    assert.equal(made, 3);
    // One after the other, they are not deep.
    made = 0;
    await refused(gateway.call('internal-again'), airlock.CallFailed);
    assert.equal(made, 3);
  });
});

test('mistakes are told by their class', async () => {
  await refused(Gateway.start({ no_such_key: 1 }), airlock.ConfigurationError);
  await refused(Gateway.start(config(), { tools: [price, price] }), airlock.BadTool);
  for (const [given, options] of [[7, {}], [null, {}], [{}, { onModel: 7 }], [{}, { codeMode: 1 }], [{}, { tool: [] }]]) {
    await refused(Gateway.start(given, options), airlock.AirlockError);
  }
  const gateway = await Gateway.start(config());
  const wrong = [{ language: 'ruby' }, { approval: 'never' }, { seconds: 0 }, { key: 'a', operator: true }, { client: 'a' }, { tools: 'a' }];
  for (const options of wrong) await refused(gateway.tools(options), airlock.AirlockError);
  for (const [name, value] of [['seconds', 0], ['seconds', Infinity], ['operator', null], ['approving', 1]]) {
    assert.match((await refused(gateway.tools({ [name]: value }), airlock.AirlockError)).message, new RegExp(`the option ${name} `));
  }
  await refused(gateway.chat(endless(QUESTION[0]), { model: 'own/a' }), airlock.AirlockError);
  await refused(Gateway.start(config(), { tools: endless(price) }), airlock.BadTool);
  await refused(gateway.tools({ clients: ['a,b'] }), airlock.BadName);
  assert.equal((await refused(gateway.approve('call_of_nobody'), airlock.NotWaiting)).code, 'approval_not_found');
  await gateway.close();
  await gateway.close();
  assert.equal((await refused(gateway.tools(), airlock.GatewayStopped)).code, 'gateway_stopping');
});

test('keys are authenticated', () => within({ server: { require_virtual_key: true } }, {}, async (gateway) => {
  await refused(gateway.tools(), airlock.KeyRequired);
  assert.equal((await refused(gateway.tools({ key: 'sk-bf-wrong' }), airlock.UnknownKey)).code, 'invalid_api_key');
  await gateway.tools({ operator: true });
}));

test('the gateway serves in the background', () => within({ server: { listen: '127.0.0.1:0' } }, { tools: [price] }, async (gateway) => {
  const address = await gateway.serve();
  assert.equal(await gateway.serve(), address);
  const body = JSON.stringify({ function: { name: 'internal-price', arguments: '{"item": "tea"}' } });
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`http://${address}/v1/mcp/tool/execute`, { method: 'POST', headers, body });
  assert.equal((await response.json()).content, '3.5');
  const other = await Gateway.start(config({ server: { listen: address } }));
  assert.equal((await refused(other.serve(), airlock.StartFailed)).code, 'listen');
  assert.equal((await refused(other.serve(), airlock.GatewayStopped)).code, 'gateway_stopping');
  await other.close();
}));

test('a program ends after its gateway is closed, and after one that has not started', async () => {
  const { code, output, errors } = await runProgram(`
    import { Gateway } from 'airlock-gateway';
    const gateway = await Gateway.start({ store: ${JSON.stringify(join(directory, 'ends.db'))} });
    await gateway.close();
    await Gateway.start({ no_such_key: 1 }).catch((error) => console.log(error.name));
  `);
  assert.deepEqual([code, output, errors], [0, 'ConfigurationError\n', '']);
});
