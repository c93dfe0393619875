// A whole gateway within the program, with functions as tools and as a model.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ApprovalPending, Gateway, tool } from 'airlock-gateway';
import type { ModelRequest } from 'airlock-gateway';
import { z } from 'zod';

const price = tool({
  name: 'price',
  description: 'Returns the price of an item.',
  parameters: z.object({ item: z.enum(['tea', 'cake']) }),
  execute: ({ item }) => ({ tea: 3.5, cake: 4 })[item],
});

const order = tool({
  name: 'order',
  description: 'Orders items.',
  parameters: z.object({ item: z.string(), count: z.int() }),
  needsApproval: true,
  execute: ({ item, count }) => `ordered ${count} ${item}`,
});

// Stands for a model: it asks for the price, and repeats it.
function onModel({ messages }: ModelRequest) {
  const last = messages.at(-1);
  if (last?.role === 'tool') return `It costs ${String(last.content)}.`;
  const call = { name: 'internal-price', arguments: '{"item": "tea"}' };
  return { tool_calls: [{ id: 'call_1', type: 'function', function: call }] };
}

const directory = await mkdtemp(join(tmpdir(), 'airlock-'));
const gateway = await Gateway.start({ store: join(directory, 'airlock.db') }, { tools: [price, order], onModel });
const tools = await gateway.tools({ tools: ['internal-*'] });
console.log(tools.map(({ name }) => name));

const question = { role: 'user', content: 'What does tea cost?' };
console.log((await gateway.chat([question], { model: 'own/shop' })).text);

try {
  await gateway.call('internal-order', { item: 'tea', count: 2 });
} catch (error) {
  if (!(error instanceof ApprovalPending)) throw error;
  // A person decides, who was shown the call.
  for (const call of error.pending.calls) console.log(call.tool, call.arguments);
  await gateway.approve(error.pending.id, { operator: true });
  console.log((await gateway.resume(error.pending.id)).text);
}
await gateway.close();
await rm(directory, { recursive: true });
// [ 'internal-order', 'internal-price' ]
// It costs 3.5.
// internal-order { item: 'tea', count: 2 }
// ordered 2 tea
