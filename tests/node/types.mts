// Types of the package: what a program may write, and what it may not. It is checked and not run.

import { ApprovalPending, ChatFailed, Gateway, LimitExceeded, ModelError, ScriptError, ToolFailed, runScript, startScript, tool } from 'airlock-gateway';
import type { Run, ScriptValue, Tool } from 'airlock-gateway';
import { z } from 'zod';

export const typed: Tool = tool({
  name: 'order',
  parameters: z.object({ item: z.string(), count: z.int().default(1), when: z.string().transform((text) => new Date(text)).optional() }),
  execute: (given, { signal }) => {
    const known: { item: string; count: number; when?: Date | undefined } = given;
    signal.throwIfAborted();
    return [known.item.trim(), given.count.toFixed(), given.when?.getTime()];
  },
});

export const plain: Tool = tool({
  name: 'plain',
  description: 'Does it.',
  parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
  needsApproval: true,
  readOnly: false,
  execute: async ({ a }: { a: number }) => [a, new Date()],
});

export const none: Tool = tool({ name: 'none', execute: () => {} });

// @ts-expect-error a tool has a function
tool({ name: 'a' });
// @ts-expect-error properties are spelled as they are declared
tool({ name: 'a', needs_approval: true, execute: () => 1 });
// @ts-expect-error an approval is needed or not
tool({ name: 'a', needsApproval: 'yes', execute: () => 1 });
// @ts-expect-error the arguments are those of the schema
tool({ name: 'a', parameters: z.object({ a: z.string() }), execute: ({ b }) => b });

export const value: ScriptValue | undefined = await runScript('1', {
  tools: [typed, plain, none],
  limits: { seconds: 1 },
  signal: AbortSignal.timeout(1),
});
export const run: Run = await startScript('1', {
  inputs: { a: new Date(), b: 2n ** 60n },
  language: 'starlark',
  onPrint: (line) => void line.trim(),
});
run.approve();
run.approve(run.pending.map((call) => call.id));
run.deny(undefined, 'no');
const selected: number[] = [];
// @ts-expect-error ids are one array, or none of them would be all
run.approve(...selected);
// @ts-expect-error a selection that is missing is none
run.approve(undefined);
// @ts-expect-error the value of a script has no known type
export const text: string = value;

// @ts-expect-error there is no such language
await runScript('1', { language: 'ruby' });
// @ts-expect-error there is no such limit
await runScript('1', { limits: { second: 1 } });
// @ts-expect-error tools are made by `tool`
await runScript('1', { tools: [() => 1] });

try {
  await runScript('1');
} catch (error) {
  if (error instanceof ToolFailed) console.log(error.tool.trim(), error.code?.trim(), error.cause);
  if (error instanceof ScriptError) console.log(error.line?.toFixed(), error.rendered.trim());
  if (error instanceof LimitExceeded) console.log(error.limit.trim());
}

const gateway = await Gateway.start({ store: 'airlock.db' }, {
  tools: [typed, plain],
  onModel: async function* ({ messages, temperature }, { signal }) {
    signal.throwIfAborted();
    if (temperature > 1) throw new ModelError('too warm', { status: 400 });
    yield String(messages.at(-1)?.content);
  },
});
await Gateway.start('airlock.json', { onModel: () => ({ content: 'yes' }), codeMode: true });
for await (const chunk of await gateway.chatStream([{ role: 'user', content: 'x' }], { model: 'own/x', key: 'k' })) console.log(chunk.choices);
try {
  console.log((await gateway.call('internal-plain', { a: 1 }, { seconds: 1, signal: AbortSignal.timeout(1) })).data);
} catch (error) {
  if (error instanceof ApprovalPending) {
    for (const { sources, argumentSources, askedBy, manifest } of error.pending.calls) {
      console.log(sources?.join(), argumentSources?.['to']?.join(), askedBy?.map(({ guard, reason }) => guard.trim() + reason), manifest?.join());
    }
    await gateway.approve(error.pending.id, { operator: true });
  }
  if (error instanceof ChatFailed) console.log(error.status.toFixed(), error.code.trim());
}
// @ts-expect-error a chat names its model
await gateway.chat([]);
// @ts-expect-error there is no such option
await gateway.tools({ exclude_tools: [] });
// @ts-expect-error a gateway is started
new Gateway();
await gateway.close();
