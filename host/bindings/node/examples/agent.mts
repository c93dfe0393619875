// A model that runs scripts over functions, by the AI SDK. Its answers are fixed here, so that nothing is asked.

import { tool } from 'airlock-gateway';
import { scriptTools } from 'airlock-gateway/ai';
import { generateText, stepCountIs } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { z } from 'zod';

const inhabitants = { Oslo: 717_710, Bergen: 291_940 };

const population = tool({
  name: 'population',
  description: 'Returns the number of inhabitants of a city.',
  parameters: z.object({ city: z.enum(['Oslo', 'Bergen']) }),
  execute: ({ city }) => inhabitants[city],
});

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};
const input = JSON.stringify({ code: "population('Oslo') + population('Bergen')" });
const model = new MockLanguageModelV4({
  doGenerate: [
    {
      content: [{ type: 'tool-call', toolCallId: 'first', toolName: 'run_script', input }],
      finishReason: { unified: 'tool-calls', raw: undefined },
      usage,
      warnings: [],
    },
    {
      content: [{ type: 'text', text: 'Together they have about a million inhabitants.' }],
      finishReason: { unified: 'stop', raw: undefined },
      usage,
      warnings: [],
    },
  ],
});

const answer = await generateText({
  model,
  tools: scriptTools([population]),
  stopWhen: stepCountIs(5),
  prompt: 'How many people live in Oslo and Bergen?',
});

console.log(answer.steps[0]?.toolResults[0]?.output);
console.log(answer.text);
// 1009650
// Together they have about a million inhabitants.
