// The form of a tool from its schema, which may be hostile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exact } from '../assets/lib/json.js';
import { formOf, initialOf, written } from '../assets/parts/schema.js';

function object(properties, required = []) {
  return { type: 'object', properties, required };
}

/** Writes the form of one optional member that was typed. */
function member(schema, value) {
  return written(formOf(object({ a: schema })), [value]);
}

function kindOf(schema) {
  return formOf(object({ a: schema })).fields[0].kind;
}

test('each type has its field, and what was typed is JSON', () => {
  const schema = object(
    {
      text: { type: 'string' },
      ratio: { type: 'number' },
      size: { type: 'integer', minimum: 1, maximum: 9 },
      sure: { type: 'boolean' },
      mode: { enum: ['fast', 2, null] },
      at: object({ x: { type: ['integer', 'null'] } }),
      list: { type: 'array', items: { type: 'integer' } },
      any: {},
    },
    ['text', 'at'],
  );
  const form = formOf(schema);
  assert.deepEqual(
    form.fields.map(({ name, kind }) => `${name} ${kind}`),
    ['text text', 'at object', 'ratio number', 'size integer', 'sure boolean', 'mode choice', 'list list', 'any json'],
  );
  assert.equal(form.fields[3].range, 'from 1 to 9');
  const { text, faults } = written(form, ['hi "x"', ['7'], '2.50', '3', 'false', '1', ['1', '2'], ' {"b": 1.0} ']);
  assert.deepEqual(faults, []);
  assert.equal(text, '{"text":"hi \\"x\\"","at":{"x":7},"ratio":2.50,"size":3,"sure":false,"mode":2,"list":[1,2],"any":{"b": 1.0}}');
});

test('an optional field that is empty is not sent, and a required one is', () => {
  const form = formOf(object({ a: { type: 'string' }, b: { type: 'string' }, c: object({ d: { type: 'string' } }) }, ['a']));
  assert.equal(written(form, initialOf(form)).text, '{"a":""}');
  assert.equal(written(formOf(object({})), []).text, '{}');
  const number = formOf(object({ n: { type: 'number' } }, ['n']));
  assert.deepEqual(written(number, ['']).faults, [{ path: ['n'], message: 'is required' }]);
});

test('numbers keep their digits, and what is none is a fault', () => {
  assert.equal(member({ type: 'integer' }, '12345678901234567890').text, '{"a":12345678901234567890}');
  for (const typed of ['1e', '0x1', '01', 'NaN', '1 2', '.5', '1,5', 'Infinity']) {
    assert.equal(member({ type: 'number' }, typed).faults.length, 1, typed);
  }
  assert.equal(member({ type: 'integer' }, '1.5').faults.length, 1);
  assert.equal(member({}, '{').faults.length, 1);
});

test('numbers of the schema keep their digits', () => {
  const schema = exact(
    '{"type":"object","properties":{"id":{"enum":[9007199254740993,[9007199254740995]],"default":9007199254740993},"n":{"type":"integer","minimum":-9223372036854775807,"default":9007199254740993},"odd":9007199254740993}}',
  );
  const form = formOf(schema);
  assert.deepEqual(form.fields[0].options, ['9007199254740993', '[9007199254740995]']);
  assert.equal(form.fields[1].range, 'from -9223372036854775807');
  assert.equal(form.fields[2].kind, 'json');
  assert.equal(written(form, initialOf(form)).text, '{"id":9007199254740993,"n":9007199254740993}');
  assert.equal(formOf(exact('{"type":"object","properties":9007199254740993}')).fields.length, 0);
});

test('a default and a choice are there from the start', () => {
  const form = formOf(object({ a: { type: 'string', default: 'x' }, b: { enum: ['p', 'q'], default: 'q' }, c: { const: 5 } }, ['c']));
  assert.deepEqual(initialOf(form), ['', 'x', '1']);
  assert.equal(written(form, ['0', 'x', '1']).text, '{"c":5,"a":"x","b":"q"}');
});

test('a union with null is its other member, and any other union is JSON', () => {
  assert.equal(kindOf({ anyOf: [{ type: 'string' }, { type: 'null' }] }), 'text');
  assert.equal(kindOf({ oneOf: [{ type: 'string' }, { type: 'number' }] }), 'json');
  assert.equal(kindOf({ allOf: [{ type: 'string' }] }), 'text');
});

test('references are followed within the schema alone', () => {
  const root = { ...object({ a: { $ref: '#/$defs/x~1y' }, b: { $ref: 'https://example.com/s' }, c: { $ref: '#/nowhere' } }), $defs: { 'x/y': { type: 'boolean' } } };
  assert.deepEqual(formOf(root).fields.map(({ kind }) => kind), ['boolean', 'json', 'json']);
});

test('cycles of references end', () => {
  const loop = { ...object({ a: { $ref: '#/$defs/a' } }), $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } };
  assert.equal(formOf(loop).fields[0].kind, 'json');
  const tree = object({ name: { type: 'string' }, child: { $ref: '#' }, children: { type: 'array', items: { $ref: '#' } } });
  assert.ok(count(formOf(tree)) <= 250);
  assert.equal(formOf({ $ref: '#' }).kind, 'json');
});

function count(field) {
  const inner = field.fields ?? (field.item ? [field.item] : []);
  return 1 + inner.reduce((sum, each) => sum + count(each), 0);
}

test('deep and wide schemas become JSON in bounded work', () => {
  let deep = { type: 'string' };
  for (let depth = 0; depth < 10_000; depth += 1) deep = object({ a: deep });
  let field = formOf(deep);
  let depth = 0;
  while (field.kind === 'object') [field, depth] = [field.fields[0], depth + 1];
  assert.equal(field.kind, 'json');
  assert.ok(depth < 10);
  const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`p${at}`, { type: 'string' }]));
  assert.equal(formOf(object(wide)).kind, 'json');
  const both = object(Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`p${at}`, object({ x: { type: 'string' }, y: {} })])));
  assert.ok(count(formOf(both)) <= 500);
});

test('names of prototypes are members as all others', () => {
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"integer"}},"required":["__proto__"]}');
  const form = formOf(schema);
  assert.equal(written(form, ['x', '1']).text, '{"__proto__":"x","constructor":1}');
  assert.equal({}.x, undefined);
  assert.equal(formOf({ ...object({ a: { $ref: '#/constructor' } }) }).fields[0].kind, 'json');
});

test('what is no schema is raw JSON', () => {
  for (const schema of [null, undefined, 'x', 7, [], true, { type: 'string' }, { type: 7 }, { properties: 'x', type: 'array' }]) {
    const form = formOf(schema);
    assert.equal(form.kind, 'json', JSON.stringify(schema));
    assert.equal(written(form, '{"a":1}').text, '{"a":1}');
  }
  assert.equal(formOf({ type: 'object', properties: [], required: 'a' }).kind, 'object');
  assert.equal(formOf(object({ a: { enum: [] }, b: { type: 'string', description: { x: 1 }, title: 5 } })).fields[0].kind, 'json');
});
