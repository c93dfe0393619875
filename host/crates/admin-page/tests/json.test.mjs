// JSON as it was written.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exact, jsonText, layout, LongNumber, member, parts, pretty, tokens } from '../assets/lib/json.js';

test('only spaces between tokens change', () => {
  const text = '{"big":12345678901234567890,"exact":1.10,"exp":1E+2,"minus":-0.0,"esc":"\\u0041\\n\\"","same":1,"same":2,"list":[1, {} ,[]],"t":true}';
  const shown = pretty(text);
  assert.deepEqual(tokens(shown), tokens(text));
  for (const part of ['12345678901234567890', '1.10', '1E+2', '-0.0', '"\\u0041\\n\\""', '"same": 1', '"same": 2']) {
    assert.ok(shown.includes(part), part);
  }
});

test('objects and lists are indented, and empty ones stay on their line', () => {
  assert.equal(pretty('{"a":[1,{"b":[]}],"c":{}}'), '{\n  "a": [\n    1,\n    {\n      "b": []\n    }\n  ],\n  "c": {}\n}');
  assert.equal(pretty(' 7 '), '7');
});

test('what is not JSON, or is nested too deeply, is shown as it came', () => {
  for (const text of ['', '{', "{'a':1}", 'NaN', '[1,]', '{"a":1}x', '['.repeat(200) + ']'.repeat(200)]) {
    assert.equal(pretty(text), text);
  }
});

test('spaces inside strings stay', () => {
  assert.equal(pretty('{"a  b":"  c  "}'), '{\n  "a  b": "  c  "\n}');
});

test('kinds of tokens tell names from strings', () => {
  assert.deepEqual(layout('{"a":"b","c":1}').map((token) => token.kind), ['mark', 'name', 'mark', 'string', 'mark', 'name', 'mark', 'value', 'mark']);
});

test('members and elements are texts as they were written', () => {
  assert.deepEqual(parts('{"a": 1.0, "b": {"c": [1, 2]}, "a": 2.00}'), [['a', '1.0'], ['b', '{"c":[1,2]}'], ['a', '2.00']]);
  assert.deepEqual(parts('[1.0, [], {"x": [3]}]'), [[0, '1.0'], [1, '[]'], [2, '{"x":[3]}']]);
  for (const text of ['7', '"a"', '{}', '[]', '{']) {
    assert.deepEqual(parts(text), []);
  }
});

test('of members with one name, the last is the one that programs read', () => {
  assert.equal(member('{"a": 1.0, "a": 2.0}', 'a'), '2.0');
  assert.equal(member('{"\\u0061": 3.0}', 'a'), '3.0');
  assert.equal(member('{"a": 1}', 'b'), undefined);
});

test('a string of megabytes is laid out', () => {
  const text = JSON.stringify({ long: '\\"\n'.repeat(3_000_000) });
  assert.equal(layout(text).length, 5);
  assert.equal(member(text, 'long').length, 18_000_002);
});

test('a number that would be rounded keeps its digits, and all else is what JSON.parse returns', () => {
  const text = '{"id":9007199254740993,"list":[1,-12345678901234567890,1.5,0.12345678901234567,1e400],"in":{"a":"]","b":[],"c":{}},"t":true,"n":null}';
  const read = exact(text);
  assert.ok(read.id instanceof LongNumber);
  assert.equal(`${read.id}`, '9007199254740993');
  assert.ok(new LongNumber('1234567890123456') > 200);
  assert.deepEqual([read.list[0], read.list[2], read.t, read.n], [1, 1.5, true, null]);
  assert.equal(jsonText(read), text);
  for (const same of ['7', '-0.5e3', '"9007199254740993"', '{"1234567890123456789":2}', '[[],{},""," , "]', '{"__proto__":{"a":1}}']) {
    assert.deepEqual(exact(same), JSON.parse(same));
  }
  assert.equal(jsonText(undefined), undefined);
  assert.throws(() => exact('{"a":'), SyntaxError);
});
