/** The AI SDK: a set of tools with `run_script`, with which a model runs scripts over functions. */

import { jsonSchema, tool } from 'ai';

import model from './lib/model.js';

const INPUT = { type: 'object', properties: { code: { type: 'string' } }, required: ['code'], additionalProperties: false };

export function scriptTools(tools, { language = 'python', limits, onApproval } = {}) {
  return {
    run_script: tool({
      description: model.describe(tools, language),
      inputSchema: jsonSchema(INPUT),
      execute: ({ code }, { abortSignal }) => model.runForModel(code, { tools, language, limits, signal: abortSignal }, onApproval),
    }),
  };
}
