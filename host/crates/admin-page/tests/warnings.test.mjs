// What is said about a call before it is approved, and messages of the gateway.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Message, Text } from '../assets/lib/core.js';
import { about } from '../assets/lib/load.js';
import { warningsOf } from '../assets/work/warnings.js';

const CALL = { arguments: '{"text":"buy milk"}', effects: { destructive: true, read_only: null }, definition: 'current', sources: [], asked_by: [] };

test('a call that is as its tool says has no warnings', () => {
  assert.deepEqual(warningsOf(CALL), []);
  assert.deepEqual(warningsOf({ ...CALL, arguments: undefined }), [], 'arguments that are not shown');
});

test('each risk of a call is a warning', () => {
  for (const [members, pattern] of [
    [{ definition: 'changed' }, /defined differently/],
    [{ definition: 'unaccepted' }, /no one has accepted/],
    [{ definition: 'gone' }, /no such tool/],
    [{ sources: ['web', 'mail'] }, /untrusted content from web, mail/],
    [{ asked_by: [{ guard: 'spend', reason: 'above 100' }] }, /Guards ask: spend: above 100/],
    [{ arguments: '{"to":"p\u0430ypal"}' }, /look like others/],
    [{ arguments: '{"to":"a\u202Eb"}' }, /hidden characters/],
    [{ arguments: `{"text":"${'x'.repeat(2_000)}"}` }, /2,011 characters/],
    [{ arguments: JSON.stringify({ path: 'a', text: `x${'\n'.repeat(300)}`, mode: 'rm' }) }, /305 lines/],
    [{ arguments: JSON.stringify(Array(30).fill(0)) }, /32 lines/],
    [{ effects: null }, /does not state its effects/],
    [{ effects: { destructive: null } }, /does not state its effects/],
  ]) {
    const warnings = warningsOf({ ...CALL, ...members });
    assert.equal(warnings.length, 1, JSON.stringify(members).slice(0, 80));
    assert.match(warnings[0], pattern);
  }
});

/** Returns the parts of a message as `[type, text]`. */
function parts(value) {
  return [Message({ value })].flat().map((part) => (part.type === Text ? ['text', part.props.value] : [part.type, part.props.children.props.value]));
}

test('text between backticks in a message is code, unless a backtick is alone or there are very many', () => {
  assert.deepEqual(parts('`a.b` is true.'), [['text', ''], ['code', 'a.b'], ['text', ' is true.']]);
  for (const text of ['plain', 'one ` alone', '`x` '.repeat(100)]) assert.deepEqual(parts(text), [['text', text]]);
});

test('a time is told with its largest unit, rounded down', () => {
  assert.deepEqual([1_500, 59_000, 3_599_000, 7_100_000, 604_000_000].map(about), ['2 s', '59 s', '59 min', '1 h', '6 d']);
});
