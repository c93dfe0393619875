import type { Tool as AiTool } from 'ai';

import type { Language, Limits, Run, Tool } from './index.js';

/**
 * Returns a set with the tool `run_script`, for `generateText({ tools })` or `streamText({ tools })`: a model runs scripts over your
 * tools. It reads the result of its script, or why it failed.
 */
export declare function scriptTools(
  tools: readonly Tool[],
  options?: {
    language?: Language;
    limits?: Limits;
    /**
     * Decides about the calls of a run that waits, with `approve` and `deny`. Without it, or if it decides about none, the model
     * reads that an approval is missing.
     */
    onApproval?: (run: Run) => void | Promise<void>;
  },
): { run_script: AiTool<{ code: string }, string> };
