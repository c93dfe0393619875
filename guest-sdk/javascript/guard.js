/**
 * SDK for Airlock guards in JavaScript. A guard is an object with one or more hooks: `before` and `after` a call, `definition`,
 * `beforeModel` and `afterModel`.
 *
 *     import { allow, deny, guard, s } from './airlock-plugin/guard.js';
 *
 *     export const hooks = guard({
 *       settings: s.object({ domain: s.string().default('example.com') }),
 *       before({ arguments: { to }, settings: { domain } }) {
 *         return String(to).split('@')[1] === domain ? allow() : deny('foreign_domain', `mail goes to ${domain} alone`);
 *       },
 *     });
 *
 * A guard imports nothing: no other module of this package that reaches the host can be used in one. Each hook runs in an instance
 * of its own, so nothing is kept between two, and it returns its verdict at once: it is not `async`. An exception refuses the call, or
 * withholds its outcome or the tool, with `guard_failed`; its text is lost.
 */

import { Schema, s } from './schema.js';

export { Schema, s };

/** The hooks, by the names of their functions, with the names that the contract has for them. */
const HOOKS = { before: 'before', after: 'after', definition: 'definition', beforeModel: 'before-model', afterModel: 'after-model' };

/** A decision. The functions below make one. */
export class Verdict {
  constructor(members) {
    Object.freeze(Object.assign(this, members));
  }

  /** The value that a rewrite has; undefined for another decision. */
  get value() {
    return this.type === 'rewrite' ? JSON.parse(this.json) : undefined;
  }
}

/** Changes nothing. */
export const allow = () => new Verdict({ type: 'allow' });

/** Replaces the arguments, the outcome, the definition or the texts by a value of the same form. */
export const rewrite = (value) => rewriteText(JSON.stringify(value));

/** Replaces them by a JSON text. Numbers that JavaScript cannot have, such as integers beyond 2^53, keep their digits in it. */
export const rewriteText = (json) => new Verdict({ type: 'rewrite', json: checked('the JSON text of a rewrite', json) });

/** Denies the call, withholds its outcome, or denies the definition, the request or the response. */
export const deny = (code, reason) => new Verdict({ type: 'deny', code: checked('code', code), reason: checked('reason', reason) });

/** Asks for an approval. */
export const ask = (reason) => new Verdict({ type: 'ask', reason: checked('reason', reason) });

// The bindings convert a text after the hook has returned, and would accept a value that only has a text.
function checked(name, text) {
  if (typeof text !== 'string') throw new TypeError(`${name} must be a string, not ${typeof text}`);
  return text;
}

/** A call of a tool. */
class Call {
  constructor({ tool, client, arguments: argumentsText, effects, origin, key, tenant, extra }, settings) {
    Object.assign(this, { tool, client, argumentsText, effects, origin, key, tenant, settings, extra: parsed(extra) });
  }

  get arguments() {
    return JSON.parse(this.argumentsText);
  }
}

/** The end of a call. */
class Outcome {
  constructor({ tag, val }) {
    Object.assign(this, { isFailure: tag === 'failure', text: val });
  }

  get value() {
    return JSON.parse(this.text);
  }
}

/** A tool as its source lists it. */
class ListedTool {
  constructor({ tool, client, trusted, definition, extra }, settings) {
    Object.assign(this, { tool, client, trusted, definitionText: definition, settings, extra: parsed(extra) });
  }

  get definition() {
    return JSON.parse(this.definitionText);
  }
}

/** A request to a model, or its response. */
class ModelExchange {
  #texts;

  constructor({ model, key, tenant, texts, extra }, settings) {
    this.#texts = texts;
    Object.assign(this, { model, key, tenant, settings, extra: parsed(extra) });
  }

  get texts() {
    return JSON.parse(this.#texts);
  }

  /** Replaces each text by what `change` returns for it, and allows the exchange if it returns undefined for all. */
  rewrite(change) {
    const changes = this.texts.map((text) => [text, change(text)]);
    if (changes.every(([, changed]) => changed === undefined)) return allow();
    return rewrite(changes.map(([{ role, text }, changed]) => ({ role, text: checked('a text', changed ?? text) })));
  }
}

const parsed = (text) => (text === undefined || text === null ? undefined : JSON.parse(text));

/**
 * Returns what `guard.js` must export as `hooks`: `export const hooks = guard({ before(call) { … } })`. Fails with `TypeError` if it is
 * no guard.
 */
export function guard(definition) {
  const known = ['settings', ...Object.keys(HOOKS)];
  for (const [member, value] of Object.entries(definition)) {
    if (!known.includes(member)) throw new TypeError(`a guard has no member ${member}; known are ${known.join(', ')}`);
    if (member !== 'settings' && typeof value !== 'function') throw new TypeError(`the hook ${member} is no function`);
  }
  const names = Object.keys(HOOKS).filter((name) => Object.hasOwn(definition, name));
  if (names.length === 0) throw new TypeError(`a guard has one or more of the hooks ${Object.keys(HOOKS).join(', ')}`);
  const schema = definition.settings ?? s.object({});
  if (!(schema instanceof Schema) || schema.toJSON().type !== 'object') throw new TypeError('settings is no schema of an object; write s.object({ … })');
  const decide = (name, ...given) => (names.includes(name) ? toHost(definition[name](...given)) : toHost(allow()));
  const settings = ({ settings: text }) => schema.parse(JSON.parse(text));
  return {
    checkSettings(text) {
      try {
        schema.parse(JSON.parse(text));
      } catch (error) {
        // Schemas speak of arguments.
        const problem = String(error?.message ?? error).replace(/\bargument `/, 'setting `');
        throw Object.assign(new Error(problem), { payload: problem });
      }
      return names.map((name) => HOOKS[name]);
    },
    beforeCall: (call) => decide('before', new Call(call, settings(call))),
    afterCall: (call, outcome) => decide('after', new Call(call, settings(call)), new Outcome(outcome)),
    onDefinition: (listed) => decide('definition', new ListedTool(listed, settings(listed))),
    beforeModel: (exchange) => decide('beforeModel', new ModelExchange(exchange, settings(exchange))),
    afterModel: (exchange) => decide('afterModel', new ModelExchange(exchange, settings(exchange))),
  };
}

/** Converts a decision to that of the contract. Whatever is none, such as undefined or a promise, is an error. */
function toHost(verdict) {
  if (!(verdict instanceof Verdict)) throw new TypeError('a hook returns allow(), rewrite(…), deny(…) or ask(…), and is not async');
  const { type, json, code, reason } = verdict;
  return { allow: { tag: 'allow' }, rewrite: { tag: 'rewrite', val: json }, deny: { tag: 'deny', val: { code, reason } }, ask: { tag: 'ask', val: reason } }[type];
}
