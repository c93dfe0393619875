// A script that calls a function of the program.

import { runScript, tool } from 'airlock-gateway';
import { z } from 'zod';

const prices = { tea: 3.5, cake: 4 };

const price = tool({
  name: 'price',
  description: 'Returns the price of an item.',
  parameters: z.object({ item: z.enum(['tea', 'cake']), count: z.int().default(1) }),
  execute: ({ item, count }) => prices[item] * count,
});

const code = `
total = sum(price(item, count) for item, count in order.items())
print("ordered", len(order), "items")
result = {"total": total, "discount": total > 10}
`;

console.log(await runScript(code, { tools: [price], inputs: { order: { tea: 2, cake: 1 } }, onPrint: console.log }));
// ordered 2 items
// { total: 11, discount: true }
