// What a person approves, in the dialog.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Manifest } from '../assets/work/decide.js';

test('a manifest takes the first focus, so that Enter alone does not approve it, and its spaces are shown', () => {
  const list = [Manifest({ lines: ['a-b(path="x  y"): once'] })].flat().find((part) => part.type === 'ol');
  assert.equal(list.props.tabindex, '0');
  assert.match(list.props.class, /\bmanifest\b/);
  assert.match(readFileSync(new URL('../assets/detail.css', import.meta.url), 'utf8'), /\.manifest \{ white-space: pre-wrap; \}/);
});
