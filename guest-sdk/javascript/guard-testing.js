/**
 * Asks a guard without a gateway, in Node.js:
 *
 *     const gateway = new Gateway(hooks, { settings: { domain: 'example.org' } });
 *     assert.deepEqual(gateway.before('mail-send', { to: 'ann@example.org' }), allow());
 *
 * Accepts what the gateway accepts: a verdict that it would refuse with `guard_failed` is a `GuardFailed` here.
 */

import { allow, ask, deny, rewriteText } from './guard.js';

/** Members of a definition that a rewrite may change. */
const TEXTS = ['title', 'description'];

/** A hook that has made no valid decision. The gateway refuses with `guard_failed`. */
export class GuardFailed extends Error {
  constructor(hook, problem, cause) {
    super(`${hook}: ${problem}`, { cause });
    this.name = 'GuardFailed';
  }
}

/** A gateway in memory with one guard. */
export class Gateway {
  #hooks;
  #settings;
  /** Names of the hooks that the guard has. */
  hooks;

  constructor(hooks, { settings = {} } = {}) {
    this.#hooks = hooks;
    this.#settings = JSON.stringify(settings);
    this.hooks = hooks.checkSettings(this.#settings);
  }

  before(tool, args = {}, more = {}) {
    const decide = (text) => this.#decide('before', () => this.#hooks.beforeCall(this.#call(tool, text, more)), objectOf);
    const verdict = decide(JSON.stringify(args));
    if (verdict.type === 'rewrite') {
      const again = decide(verdict.json);
      const isSame = again.type !== 'rewrite' || sorted(again.value) === sorted(verdict.value);
      if (!isSame) throw new GuardFailed('before', 'the rewrite is not idempotent: applied to its own output, it changes it again');
    }
    return verdict;
  }

  after(tool, args, result, more = {}) {
    const outcome = { tag: more.isFailure ? 'failure' : 'success', val: JSON.stringify(result) };
    const call = this.#call(tool, JSON.stringify(args), more);
    return this.#decide('after', () => this.#hooks.afterCall(call, outcome), (value) => {
      objectOf(value);
      if (value.content !== undefined && value.content !== null && !Array.isArray(value.content)) throw new Error('`content` is not an array');
      if (more.isFailure && typeof value.message !== 'string') throw new Error('`message` is not a text');
    });
  }

  definition(client, definition, { trusted = false } = {}) {
    const listed = { tool: `${client}-${definition.name}`, client, trusted, definition: JSON.stringify(definition), settings: this.#settings };
    return this.#decide('definition', () => this.#hooks.onDefinition(listed), (value) => {
      if (sorted(value, TEXTS) !== sorted(definition, TEXTS)) throw new Error('it differs in more than descriptions and titles');
    });
  }

  beforeModel(texts, more) {
    return this.#model('before-model', 'beforeModel', texts, more);
  }

  afterModel(texts, more) {
    return this.#model('after-model', 'afterModel', texts, more);
  }

  #model(hook, name, texts, { model = 'provider/model', key, tenant = 'anonymous' } = {}) {
    const exchange = { model, key, tenant, texts: JSON.stringify(texts), settings: this.#settings };
    const roles = (list) => JSON.stringify(list.map(({ role }) => role));
    return this.#decide(hook, () => this.#hooks[name](exchange), (value) => {
      if (!Array.isArray(value) || roles(value) !== roles(texts)) throw new Error('the roles of its texts are not those that it was given');
    });
  }

  #call(tool, text, { effects = {}, origin = 'caller', key, tenant = 'anonymous' }) {
    const client = tool.split('-')[0];
    return { tool, client, arguments: text, effects: { trusted: false, ...effects }, origin, key, tenant, settings: this.#settings };
  }

  #decide(hook, run, check) {
    if (!this.hooks.includes(hook)) return allow();
    let verdict;
    try {
      verdict = run();
    } catch (error) {
      throw new GuardFailed(hook, 'the guard made no decision', error);
    }
    const { tag, val } = verdict;
    if (tag === 'allow') return allow();
    if (tag === 'deny') return deny(val.code, val.reason);
    if (tag === 'ask') {
      if (hook !== 'before') throw new GuardFailed(hook, 'a guard asks only before a call');
      return ask(val);
    }
    try {
      check(JSON.parse(val));
    } catch (error) {
      throw new GuardFailed(hook, `its rewrite is not valid: ${error.message}`, error);
    }
    return rewriteText(val);
  }
}

function objectOf(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('it is not an object');
}

/** Returns the JSON text of a value with sorted members, without the texts of these members. */
function sorted(value, without = []) {
  const members = (object) =>
    Object.entries(object)
      .filter(([name, text]) => !(without.includes(name) && typeof text === 'string'))
      .sort(([one], [other]) => (one < other ? -1 : 1));
  const isPlain = (found) => typeof found === 'object' && found !== null && !Array.isArray(found);
  return JSON.stringify(value, (_, found) => (isPlain(found) ? Object.fromEntries(members(found)) : found));
}
