// Changed definitions: their lines, their words, and which of them can be accepted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptable, changeLine, changeWords } from '../assets/parts/change_lines.js';

test('a line is a place, or was removed, added or kept there', () => {
  const lines = ['/description', '  - old', '  + new', '    kept', '  +   indented', '  - - list'];
  const found = lines.map(changeLine).map(({ kind, text }) => `${kind}:${text}`);
  assert.deepEqual(found, ['place:/description', 'removed:old', 'added:new', 'same:kept', 'added:  indented', 'removed:- list']);
});

test('the words say what holds until a change is accepted', () => {
  assert.match(changeWords({ kind: 'changed', offered: true }), /accepted definition stays in use/);
  assert.match(changeWords({ kind: 'new', offered: true }), /needs an approval/);
  assert.match(changeWords({ kind: 'new', offered: false }), /not offered/);
  assert.match(changeWords({ kind: 'renamed', offered: false }), /renamed/);
  assert.match(changeWords({ kind: 'removed', offered: false }), /not have it/);
});

test('a change with lines that are not shown is not accepted', () => {
  assert.deepEqual(acceptable([{ tool: 'a', hidden: 0 }, { tool: 'b', hidden: 3 }]), ['a']);
});
