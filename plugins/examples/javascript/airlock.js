/**
 * Turns functions into the tools of an Airlock plugin. It is part of your sources: read it, and change it as you like.
 *
 *     import { Failure, log, object, plugin } from './airlock.js';
 *
 *     export const tools = plugin({
 *       add: {
 *         description: 'Adds two numbers.',
 *         input: object({ a: { type: 'number' }, b: { type: 'number' } }),
 *         output: object({ sum: { type: 'number' } }),
 *         run: ({ a, b }) => ({ sum: a + b }),
 *       },
 *     });
 *
 * The contract behind it is in `wit/`. The other interfaces of the host are imported from there:
 * `import { send } from 'airlock:host/http@0.1.0'`.
 */

import { write } from 'airlock:host/log@0.1.0';

/**
 * What a tool's `run` returns, perhaps as a promise: a string is a text; an object is data, and its JSON a text for readers that
 * know texts alone; an `Answer` has both as you choose.
 * @typedef {string | object | Answer | undefined} Result
 *
 * @typedef {object} Tool
 * @property {string} description What the tool does, written for the model that chooses by it.
 * @property {object} input JSON Schema of the arguments, its root an object. The host lets nothing else through.
 * @property {object} [output] JSON Schema of the data that it answers with, its root an object.
 * @property {string} [title] A name for people.
 * @property {{ readOnly?: boolean, destructive?: boolean, idempotent?: boolean, openWorld?: boolean }} [annotations]
 *   Hints: whether it changes nothing outside itself, may destroy something, may be repeated without further effect, and
 *   reaches things that the host does not know. What is left out is taken for the worst.
 * @property {(args: any, call: Call) => Result | Promise<Result>} run
 *
 * @typedef {'invalid-input' | 'not-found' | 'denied' | 'auth-required' | 'rate-limited' | 'unavailable' | 'timeout'
 *   | 'cancelled' | 'too-large' | 'internal'} Kind
 */

/** A failure as the model reads it: `throw new Failure('not-found', 'there is no city Olso', { code: 'unknown_city' })`. */
export class Failure extends Error {
  /**
   * @param {Kind} kind What kind of failure.
   * @param {string} message What the model is told; say what to change.
   * @param {{ code?: string, retryAfterMs?: number, details?: object }} [more] A short stable identifier; when to try
   *   again; more, as data.
   */
  constructor(kind, message, { code, retryAfterMs, details } = {}) {
    super(message);
    Object.assign(this, { kind, code, retryAfterMs, details });
  }
}

/** An answer of data and of parts to read, made with `text` and the like. */
export class Answer {
  /** @param {{ structured?: object, content?: object[] }} answer */
  constructor({ structured, content = [] }) {
    Object.assign(this, { structured, content });
  }
}

/** A text part. */
export const text = (text, mimeType) => ({ tag: 'text', val: { text, mimeType } });

/** An image part; `data` is a `Uint8Array`. */
export const image = (data, mimeType) => ({ tag: 'image', val: { data, mimeType } });

/** A part that names a resource which the caller may fetch. */
export const link = (uri, name, mimeType) => ({ tag: 'resource-link', val: { uri, name, mimeType } });

/** JSON Schema of an object with these properties and no others, all required but those that `optional` names. */
export const object = (properties, optional = []) => ({
  type: 'object',
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
  additionalProperties: false,
});

/** The operator's log: `log.info('table read', { rows: 3 })`. Arguments and results do not belong there. */
export const log = Object.fromEntries(
  ['trace', 'debug', 'info', 'warn', 'error'].map((level) => [
    level,
    (message, fields = {}) => write(level, message, Object.entries(fields).map(([name, value]) => [name, String(value)])),
  ]),
);

/** The running call. */
export class Call {
  #handle;
  constructor(handle) {
    this.#handle = handle;
  }
  /** Milliseconds before the host ends the call; undefined where it is not limited. */
  get remainingMs() {
    const left = this.#handle.remainingMs();
    return left === undefined ? undefined : Number(left);
  }
  /** Says how far the call is: `done` grows, `total` where it is known. */
  progress(done, total, message) {
    this.#handle.progress(done, total, message);
  }
  /** Sends one part of the answer ahead of the rest. */
  emit(part) {
    this.#handle.emit(part);
  }
}

/** What `plugin.js` exports as `tools`. @param {Record<string, Tool>} tools The tools by name. */
export const plugin = (tools) => ({
  describe: () =>
    Object.entries(tools).map(([name, { title, description, input, output, annotations = {} }]) => ({
      name,
      title,
      description,
      inputSchema: JSON.stringify(input),
      outputSchema: output && JSON.stringify(output),
      annotations: { readOnly: undefined, destructive: undefined, idempotent: undefined, openWorld: undefined, ...annotations },
      meta: undefined,
    })),

  async invoke(name, args, handle) {
    try {
      if (!Object.hasOwn(tools, name)) throw new Failure('not-found', `this plugin has no tool ${name}`);
      return output(await tools[name].run(JSON.parse(args), new Call(handle)));
    } catch (error) {
      throw failure(error);
    }
  },
});

function output(result = '') {
  if (result instanceof Answer) {
    const { structured, content } = result;
    return { content, structured: structured && JSON.stringify(structured), meta: undefined };
  }
  const isData = typeof result === 'object' && result !== null && !Array.isArray(result);
  const content = [text(typeof result === 'string' ? result : JSON.stringify(result))];
  return output(new Answer({ structured: isData ? result : undefined, content }));
}

/** What the contract knows as an error. Any exception that is no `Failure` is the tool's own fault; what the host answered to a
 * request of the tool's is in its `payload`. */
function failure(error) {
  if (error instanceof Failure) {
    const { kind, code, message, retryAfterMs: after, details } = error;
    return { kind, code, message, retryAfterMs: after === undefined ? after : BigInt(after), details: details && JSON.stringify(details) };
  }
  log.error('the tool failed', { stack: error?.stack ?? '' });
  return failure(new Failure('internal', error?.payload?.message ?? String(error)));
}
