/**
 * SDK for Airlock plugins in JavaScript. A tool is an object with a function `run`.
 *
 *     import { plugin, s, tool } from './airlock-plugin/index.js';
 *
 *     const countWord = tool({
 *       name: 'count_word',
 *       description: 'Counts how often a word occurs in a text.',
 *       input: s.object({
 *         text: s.string().describe('Text to look in.'),
 *         word: s.string().describe('Word to look for.'),
 *         at_most: s.integer().min(1).max(1000).default(100).describe('Stops counting there.'),
 *       }),
 *       annotations: { readOnly: true, idempotent: true, openWorld: false },
 *       run: ({ text, word, at_most }) => Math.min(text.split(/\s+/).filter((found) => found === word).length, at_most),
 *     });
 *
 *     export const tools = plugin(countWord);
 *
 * The modules `config`, `http`, `kv`, `secrets`, `secrets-reveal` and `tools` beside this one each need a request in
 * `plugin.toml`; importing one that is not requested fails when the plugin is built.
 *
 * Each of them, and `log`, imports its interface of the host by name and version, such as `airlock:host/kv@0.1.0`; no other module
 * names an interface. The package is made for these versions, so the plugin's world must import exactly them, also if the host that
 * builds it has later ones.
 */

export { Output, audio, embeddedResource, image, other, resourceLink, text } from './content.js';
export { Context } from './context.js';
export { HostError, ToolError } from './errors.js';
export { log } from './log.js';
export { plugin, tool } from './plugin.js';
export { Schema, s } from './schema.js';
