/** The set of tools for the AI SDK. The models are scripted, so that nothing is asked. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { tool } from 'airlock-gateway';
import { z } from 'zod';

import { WITHOUT_TYPESCRIPT } from './support.mjs';

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const add = tool({
  name: 'add',
  description: 'Adds numbers.\nBoth of them.',
  parameters: z.object({ a: z.int(), b: z.int().default(1), how: z.enum(['up', 'down']).optional(), more: z.array(z.string()).optional() }),
  execute: ({ a, b }) => a + b,
});
const erase = tool({ name: 'erase', parameters: z.object({ name: z.string() }), needsApproval: true, execute: ({ name }) => `erased ${name}` });

/** Returns what a model reads as the result of each of its scripts. */
async function results(scripts, options) {
  const { generateText, stepCountIs } = await import('ai');
  const { MockLanguageModelV4 } = await import('ai/test');
  const { scriptTools } = await import('airlock-gateway/ai');
  const answers = scripts.map((code, number) => ({
    content: [{ type: 'tool-call', toolCallId: String(number), toolName: 'run_script', input: JSON.stringify({ code }) }],
    finishReason: { unified: 'tool-calls' },
    usage,
    warnings: [],
  }));
  const last = { content: [{ type: 'text', text: 'done' }], finishReason: { unified: 'stop' }, usage, warnings: [] };
  const model = new MockLanguageModelV4({ doGenerate: [...answers, last] });
  const answer = await generateText({ model, tools: scriptTools([add, erase], options), stopWhen: stepCountIs(10), prompt: 'go' });
  assert.equal(answer.text, 'done');
  const parts = answer.steps.flatMap((step) => step.content).filter((part) => part.type === 'tool-result' || part.type === 'tool-error');
  return { read: parts.map((part) => part.output ?? part.error.message), asked: model.doGenerateCalls[0] };
}

test('a model reads results, printed text and failures, and the signatures of tools', { skip: WITHOUT_TYPESCRIPT }, async () => {
  const { read, asked } = await results(['add(2, 3)', "print('adding')\nadd(2)", '1 / 0', '2 ** 60', "'x' * 100_000"]);
  assert.equal(read[0], '5');
  assert.equal(read[1], 'printed:\nadding\nresult: 3');
  assert.match(read[2], /ZeroDivisionError/);
  assert.equal(read[3], String(2n ** 60n));
  assert.ok(read[4].length < 25_000);
  const [{ description }] = asked.tools;
  const parameters = 'a: int, b: int = 1, how: Literal["up", "down"] = None, more: list[str] = None';
  const signature = `def add(${parameters}): ...\n    # Adds numbers.\n    # Both of them.`;
  assert.ok(description.includes(signature), description);
});

test('a call that needs an approval is decided about by the program', { skip: WITHOUT_TYPESCRIPT }, async () => {
  const seen = [];
  const onApproval = (run) => {
    seen.push(run.pending[0].arguments);
    run.approve();
  };
  assert.deepEqual((await results(["[erase('a'), erase('b')]"], { onApproval })).read, ['["erased a","erased b"]']);
  assert.deepEqual(seen, [{ name: 'a' }, { name: 'b' }]);
});

test('without a decision the model reads that an approval is missing', { skip: WITHOUT_TYPESCRIPT }, async () => {
  for (const onApproval of [undefined, () => {}]) {
    const { read } = await results(["erase('a')"], { onApproval });
    assert.match(read[0], /approval/);
  }
});
