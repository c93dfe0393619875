import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Gateway } from './airlock-plugin/guard-testing.js';
import { allow } from './airlock-plugin/guard.js';
import { hooks } from './guard.js';

test('mail goes to the own domain alone', () => {
  const gateway = new Gateway(hooks);
  assert.deepEqual(gateway.before('mail-send', { to: 'ann@example.com' }), allow());
  for (const to of ['ann@example.org', 'eve@example.org, ann@example.com', ['ann@example.com'], undefined]) {
    assert.equal(gateway.before('mail-send', { to }).code, 'foreign_domain', String(to));
  }
});

test('the settings name the domain', () => {
  const gateway = new Gateway(hooks, { settings: { domain: 'example.org' } });
  assert.deepEqual(gateway.before('mail-send', { to: 'ann@example.org' }), allow());
  assert.throws(() => new Gateway(hooks, { settings: { domains: [] } }), { message: 'unknown setting `domains`; known are `domain`' });
});

test('results do not show the sender', () => {
  const result = { content: [{ type: 'text', text: 'by robot@example.com' }] };
  const verdict = new Gateway(hooks).after('mail-send', { to: 'ann@example.com' }, result);
  assert.deepEqual(verdict.value, { content: [{ type: 'text', text: 'by [sender]' }] });
});
