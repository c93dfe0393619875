import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { Gateway, GuardFailed } from '../guard-testing.js';
import { allow, ask, deny, guard, rewrite, rewriteText, s } from '../guard.js';

const CALL = {
  tool: 'mail-send', client: 'mail', arguments: '{"n":1}', effects: { readOnly: true, trusted: true }, origin: 'model', key: 'ann',
  tenant: 'key "ann"', settings: '{}', extra: '{"a":1}',
};

/** Returns a gateway whose guard returns this for a hook. */
const returning = (hook, value) => new Gateway(guard({ [hook]: () => value }));

const failed = (problem) => (error) => error instanceof GuardFailed && error.message.includes(problem);

test('a decision is that of the contract', () => {
  const decided = (verdict) => guard({ before: () => verdict }).beforeCall(CALL);
  assert.deepEqual(decided(allow()), { tag: 'allow' });
  assert.deepEqual(decided(rewrite({ n: 2 })), { tag: 'rewrite', val: '{"n":2}' });
  assert.deepEqual(decided(rewriteText('{"n":9007199254740993}')), { tag: 'rewrite', val: '{"n":9007199254740993}' });
  assert.deepEqual(decided(deny('no', 'not this one')), { tag: 'deny', val: { code: 'no', reason: 'not this one' } });
  assert.deepEqual(decided(ask('sure?')), { tag: 'ask', val: 'sure?' });
});

test('what is no decision is an error, and so is a text that is none', async () => {
  for (const value of [undefined, null, true, { type: 'allow' }, Promise.resolve(allow())]) {
    assert.throws(() => guard({ before: () => value }).beforeCall(CALL), TypeError);
  }
  for (const make of [() => deny('code'), () => deny(1, 'r'), () => ask(), () => rewrite(undefined), () => rewriteText({})]) {
    assert.throws(make, TypeError);
  }
});

test('a guard is checked where it is defined', () => {
  for (const [definition, problem] of [
    [{}, /one or more of the hooks before, after/],
    [{ settings: s.object({}) }, /one or more of the hooks/],
    [{ befor: () => allow() }, /a guard has no member befor; known are settings, before/],
    [{ before: true }, /the hook before is no function/],
    [{ before: () => allow(), settings: s.string() }, /settings is no schema of an object/],
    [{ before: () => allow(), settings: { type: 'object' } }, /settings is no schema of an object/],
  ]) {
    assert.throws(() => guard(definition), problem);
  }
});

test('the check of settings returns the hooks, or the problem for the operator', () => {
  const hooks = guard({ settings: s.object({ most: s.integer().min(1) }), after: () => allow(), beforeModel: () => allow() });
  assert.deepEqual(hooks.checkSettings('{"most":3}'), ['after', 'before-model']);
  for (const [settings, problem] of [
    ['{}', 'setting `most` is missing; it must be an integer of 1 or more'],
    ['{"most":"3"}', 'setting `most` must be an integer of 1 or more, not the string "3"'],
    ['{"most":3,"least":1}', 'unknown setting `least`; known are `most`'],
  ]) {
    assert.throws(() => hooks.checkSettings(settings), { payload: problem });
  }
  assert.throws(() => guard({ before: () => allow() }).checkSettings('{"a":1}'), { payload: 'unknown setting `a`; none is known' });
});

test('a call has every member of the contract, and the settings of the schema', () => {
  let seen;
  const settings = s.object({ domain: s.string().default('example.com') });
  guard({ settings, before: (call) => ((seen = { ...call, arguments: call.arguments }), allow()) }).beforeCall(CALL);
  assert.deepEqual(seen, {
    tool: 'mail-send', client: 'mail', argumentsText: '{"n":1}', arguments: { n: 1 }, effects: CALL.effects, origin: 'model', key: 'ann',
    tenant: 'key "ann"', settings: { domain: 'example.com' }, extra: { a: 1 },
  });
});

test('a hook that the guard does not have allows everything', () => {
  const hooks = guard({ before: () => deny('no', 'no') });
  for (const name of ['afterCall', 'onDefinition', 'beforeModel', 'afterModel']) {
    assert.deepEqual(hooks[name]({ ...CALL, settings: '{}' }, { tag: 'success', val: '{}' }), { tag: 'allow' }, name);
  }
});

test('an exchange is rewritten text by text', () => {
  const gateway = new Gateway(guard({ beforeModel: (exchange) => exchange.rewrite(({ text }) => (text.includes('Ann') ? text.replace('Ann', '[name]') : undefined)) }));
  const texts = [{ role: 'system', text: 'Be brief.' }, { role: 'user', text: 'I am Ann' }];
  assert.deepEqual(gateway.beforeModel(texts).value, [texts[0], { role: 'user', text: 'I am [name]' }]);
  assert.deepEqual(gateway.beforeModel([texts[0]]), allow());
  assert.deepEqual(gateway.afterModel(texts), allow(), 'it has no such hook');
});

test('the gateway of tests refuses what a gateway refuses', () => {
  const texts = [{ role: 'user', text: 'a' }];
  for (const [decide, problem] of [
    [() => returning('before', undefined).before('a-b'), 'made no decision'],
    [() => returning('before', rewrite([])).before('a-b'), 'it is not an object'],
    [() => returning('before', rewriteText('{')).before('a-b'), 'is not valid'],
    [() => returning('after', ask('sure?')).after('a-b', {}, {}), 'only before a call'],
    [() => returning('after', rewrite({ content: 'text' })).after('a-b', {}, {}), '`content` is not an array'],
    [() => returning('after', rewrite({})).after('a-b', {}, { message: 'm' }, { isFailure: true }), '`message` is not a text'],
    [() => returning('definition', rewrite({ name: 'c' })).definition('a', { name: 'b' }), 'more than descriptions and titles'],
    [() => returning('beforeModel', rewrite([])).beforeModel(texts), 'the roles of its texts'],
    [() => returning('afterModel', ask('sure?')).afterModel(texts), 'only before a call'],
  ]) {
    assert.throws(decide, failed(problem));
  }
  const growing = new Gateway(guard({ before: ({ arguments: { text } }) => rewrite({ text: `${text}!` }) }));
  assert.throws(() => growing.before('a-b', { text: 'a' }), failed('not idempotent'));
  assert.throws(() => new Gateway(guard({ before: () => allow() }), { settings: { a: 1 } }), /unknown setting `a`/);
});

test('the texts of a definition may be rewritten, at any depth and in any order', () => {
  const definition = { name: 'b', description: 'Sends.', inputSchema: { type: 'object', properties: { description: { type: 'string', title: 'T' } } } };
  const changed = { description: '', inputSchema: { properties: { description: { type: 'string', title: '' } }, type: 'object' }, name: 'b' };
  assert.deepEqual(returning('definition', rewrite(changed)).definition('a', definition).value, changed);
  const other = structuredClone(definition);
  delete other.inputSchema.properties.description;
  assert.throws(() => returning('definition', rewrite(other)).definition('a', definition), failed('more than'));
});

test('the modules of a guard import no interface of the host', async () => {
  const seen = new Set();
  const left = ['guard.js'];
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (seen.has(name)) continue;
    seen.add(name);
    const source = await readFile(new URL(`../${name}`, import.meta.url), 'utf8');
    for (const [, from] of source.matchAll(/^(?:import|export) .*from '([^']+)';$/gm)) {
      assert.match(from, /^\.\//, `${name} imports ${from}`);
      left.push(from.slice(2));
    }
  }
  assert.ok(seen.has('schema.js'), [...seen].join());
});
