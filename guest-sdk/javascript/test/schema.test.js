import assert from 'node:assert/strict';
import { test } from 'node:test';

import { s } from '../schema.js';

const search = s.object({
  text: s.string().describe('What to look for.'),
  limit: s.integer().min(1).max(100).default(20),
  level: s.enum(['low', 'high']).optional(),
  rows: s.array(s.object({ cells: s.array(s.number()) })).default([]),
  weights: s.record(s.number()).nullable().optional(),
  name: s.string().min(2).max(3).pattern(/^[a-z]+$/).optional(),
});

const refused = (value, schema = search) => {
  try {
    schema.parse(value);
  } catch (error) {
    assert.equal(error.kind, 'invalid-input');
    return error.message;
  }
  return assert.fail(`${JSON.stringify(value)} is accepted`);
};

test('builders become JSON Schema', () => {
  const json = JSON.parse(JSON.stringify(search));
  assert.deepEqual([json.type, json.required, json.additionalProperties], ['object', ['text'], false]);
  assert.deepEqual(json.properties.text, { type: 'string', description: 'What to look for.' });
  assert.deepEqual(json.properties.limit, { type: 'integer', minimum: 1, maximum: 100, default: 20 });
  assert.deepEqual(json.properties.level, { type: 'string', enum: ['low', 'high'] });
  assert.deepEqual(json.properties.weights, {
    anyOf: [{ type: 'object', additionalProperties: { type: 'number' } }, { type: 'null' }],
  });
  assert.deepEqual(json.properties.name, { type: 'string', minLength: 2, maxLength: 3, pattern: '^[a-z]+$' });
});

test('arguments that are left out have their defaults, which calls do not share', () => {
  const first = search.parse({ text: 'a' });
  assert.deepEqual(first, { text: 'a', limit: 20, rows: [] });
  first.rows.push(1);
  assert.deepEqual(search.parse({ text: 'a' }).rows, []);
});

test('an argument that does not fit is named with what it must be', () => {
  const cases = [
    [{ text: 7 }, 'argument `text` must be a string, not 7'],
    [{ text: '', limit: 0 }, 'argument `limit` must be an integer from 1 to 100, not 0'],
    [{ text: '', limit: 1.5 }, 'argument `limit` must be an integer from 1 to 100, not 1.5'],
    [{ text: '', level: 'no' }, 'argument `level` must be one of "low", "high", not the string "no"'],
    [{ text: '', rows: [{ cells: [1, 'x'] }] }, 'argument `rows[0].cells[1]` must be a number, not the string "x"'],
    [{ text: '', rows: [{}] }, 'argument `rows[0].cells` is missing; it must be an array'],
    [{ text: '', weights: { a: null } }, 'argument `weights.a` must be a number, not null'],
    [{ text: '', weights: [] }, 'argument `weights` must be an object, not an array of 0'],
    [{ text: '', name: 'x' }, 'argument `name` must be a string that matches ^[a-z]+$ of 2 to 3 characters, not the string "x"'],
    [{ text: '', name: 'X2' }, 'argument `name` must be a string that matches ^[a-z]+$ of 2 to 3 characters, not the string "X2"'],
    [{ text: '', level: 'x'.repeat(99) }, `argument \`level\` must be one of "low", "high", not the string "${'x'.repeat(40)}…"`],
    [{}, 'argument `text` is missing; it must be a string'],
  ];
  for (const [value, message] of cases) assert.equal(refused(value), message);
  assert.match(refused({ text: '', toString: 1 }), /^unknown argument `toString`; known are `text`, `limit`/);
});

test('null is a value only where it is allowed', () => {
  assert.equal(search.parse({ text: '', weights: null }).weights, null);
  assert.equal(refused({ text: null }), 'argument `text` must be a string, not null');
});

test('a union takes the first schema that fits', () => {
  const either = s.union(s.integer(), s.object({ n: s.integer() }));
  assert.deepEqual([either.parse(1), either.parse({ n: 2 })], [1, { n: 2 }]);
  assert.equal(refused('x', either), 'the value must be an integer or an object, not the string "x"');
});

test('a bound that a type does not have is refused where it is written', () => {
  assert.throws(() => s.boolean().min(1), /a schema of type boolean has no min/);
});

test('a member named like one of an object is no member of the prototype', () => {
  assert.equal(refused({ n: 1 }, s.object({ constructor: s.integer() })), 'unknown argument `n`; known are `constructor`');
  assert.equal(refused({}, s.object({ constructor: s.integer() })), 'argument `constructor` is missing; it must be an integer');
});
