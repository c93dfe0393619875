// The number of calls that wait, in the title of a page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { titled } from '../assets/lib/waiting.js';

test('the number is before the title once, and is gone with the last call', () => {
  const first = titled('Keys – Airlock', 3);
  assert.equal(first, '(3) Keys – Airlock');
  assert.equal(titled(first, 1200), '(1200) Keys – Airlock');
  assert.equal(titled(first, 0), 'Keys – Airlock');
  assert.equal(titled('(a) Keys', undefined), '(a) Keys');
});
