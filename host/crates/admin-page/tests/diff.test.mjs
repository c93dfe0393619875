// Differences of texts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffLines } from '../assets/parts/diff.js';

const SIGNS = { same: ' ', removed: '-', added: '+' };

function shown(before, after) {
  return diffLines(before, after).map(({ kind, text }) => SIGNS[kind] + text).join('|');
}

test('removed and added lines are marked', () => {
  assert.equal(shown('a\nb\nc', 'a\nx\nc'), ' a|-b|+x| c');
  assert.equal(shown('a\nb\nc\nd', 'b\nc\nd\ne'), '-a| b| c| d|+e');
  assert.equal(shown('a\na\na', 'a\na'), ' a| a|-a');
  assert.equal(shown('same\nlines', 'same\nlines'), ' same| lines');
  assert.equal(shown('', 'a'), '+a');
  assert.equal(shown('a', ''), '-a');
  assert.equal(shown('', ''), '');
});

test('the lines of both texts are all there, in their order', () => {
  const before = Array.from({ length: 60 }, (_, at) => `l${(at * 7) % 11}`).join('\n');
  const after = Array.from({ length: 50 }, (_, at) => `l${(at * 5) % 13}`).join('\n');
  const lines = diffLines(before, after);
  assert.equal(lines.filter(({ kind }) => kind !== 'added').map(({ text }) => text).join('\n'), before);
  assert.equal(lines.filter(({ kind }) => kind !== 'removed').map(({ text }) => text).join('\n'), after);
});

test('texts of many lines are compared in bounded work', () => {
  const before = Array.from({ length: 50_000 }, (_, at) => `a${at}`).join('\n');
  const after = Array.from({ length: 50_000 }, (_, at) => `b${at}`).join('\n');
  const begun = performance.now();
  assert.equal(diffLines(before, after).length, 100_000);
  assert.ok(performance.now() - begun < 10_000);
});
