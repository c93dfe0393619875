// Arguments and scripts as the person who decides sees them: with all of their text.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Text } from '../assets/lib/core.js';
import { Fold } from '../assets/lib/ui.js';
import { Json, Script } from '../assets/work/arguments.js';

/** Returns the text of a tree without what is folded, and the number of folded parts. */
function read(node, found = { text: '', folded: 0 }) {
  if (Array.isArray(node)) for (const child of node) read(child, found);
  else if (typeof node === 'string') found.text += node;
  else if (node?.type === Fold || node?.type === 'details') found.folded += 1;
  else if (node?.type === Text) found.text += node.props.value;
  else if (node && typeof node === 'object') read(node.props.children, found);
  return found;
}

const LONG = `first\n${'a'.repeat(5_000)}\nrm -rf /`;

test('no part of the arguments that are decided about is folded', () => {
  const text = JSON.stringify({ code: LONG, list: ['x'.repeat(300)] });
  const whole = read(Json({ text, label: 'Arguments', isWhole: true }));
  assert.equal(whole.folded, 0);
  assert.ok(whole.text.includes(LONG) && whole.text.includes('x'.repeat(300)));
  assert.ok(read(Json({ text, label: 'Arguments' })).folded > 0, 'elsewhere they are');
});

test('a long string, which has a box of its own, has no comma behind it, and the bare form has no button', () => {
  const text = JSON.stringify({ long: 'x'.repeat(300), short: 1, last: 2 });
  const whole = read(Json({ text, label: 'Arguments', isWhole: true, isBare: true })).text;
  assert.equal(whole.match(/,/g).length, 1);
  assert.doesNotMatch(JSON.stringify(Json({ text, label: 'Arguments', isBare: true })), /Copy as sent/);
  assert.match(JSON.stringify(Json({ text, label: 'Arguments' })), /Copy as sent/);
});

test('arguments that are no JSON, or have very many tokens, are whole too', () => {
  for (const text of [`${'b'.repeat(3_000)} the end`, JSON.stringify(Array(6_000).fill(7).concat('the end'))]) {
    const whole = read(Json({ text, label: 'Arguments', isWhole: true }));
    assert.deepEqual(whole, { text, folded: 0 });
  }
});

test('no line of the script that is decided about is left out', () => {
  const lines = Array.from({ length: 2_500 }, (_, at) => `call(${at})`);
  const text = lines.join('\n');
  const whole = read(Script({ text, isWhole: true })).text;
  assert.ok(lines.every((line) => whole.includes(line)) && !whole.includes('not shown'));
  assert.ok(read(Script({ text })).text.includes('not shown'), 'elsewhere some are');
});
