// Limits in words and numbers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { budgetRow, ownerOf, rateRows, readAmount, usage, windowText } from '../assets/parts/amounts.js';

test('a window is shown in words', () => {
  for (const [duration, isCalendar, expected] of [
    ['1m', false, '1 minute'],
    ['90m', false, '90 minutes'],
    ['1d', false, '1 day'],
    ['1d', true, 'calendar day'],
    ['1h', true, '1 hour'],
    ['1M', false, '30 days'],
    ['1M', true, 'calendar month'],
    ['1Q', false, '90 days'],
    ['2Y', false, '730 days'],
    ['monthly', true, 'calendar month'],
    ['never', false, 'all time'],
    ['<b>', false, '<b>'],
  ]) {
    assert.equal(windowText(duration, isCalendar), expected, duration);
  }
});

test('a limit is full only when it is reached', () => {
  assert.deepEqual(usage(999, 0, 1000), { percent: 99, level: 'near', word: 'almost reached' });
  assert.equal(usage(9_999_999, 0, 10_000_000).percent, 99);
  assert.equal(usage(1000, 0, 1000).level, 'full');
  assert.equal(usage(900, 100, 1000).level, 'full', 'what is reserved counts');
  assert.equal(usage(0, 0, 0).level, 'full', 'a limit of 0 refuses all');
  assert.equal(usage(5, 0, 1000).level, 'low');
  assert.equal(usage(null, null, 1000).level, 'unknown');
  assert.equal(usage(2000, 0, 1000).percent, 100);
});

test('a budget is shown with its raise', () => {
  const row = budgetRow({
    id: '7', max_limit: 2.5, reset_duration: '1d', calendar_aligned: true, current_usage: 1.000001, reserved: 0.25,
    next_reset: '1970-01-02T00:00:00Z', effective_max_limit: 3, override_amount: 0.5, override_until: null,
  });
  assert.deepEqual(row, {
    what: 'Money', window: 'calendar day', percent: 41, level: 'low', word: 'available', used: '$1.000001', reserved: '$0.25',
    most: '$3.00', reset: '1970-01-02T00:00:00Z', raise: '$0.50', raiseEnds: '', id: '7',
  });
});

test('the rates of an owner are rows', () => {
  const rows = rateRows({
    token_max_limit: 1000000, token_reset_duration: '1h', token_current_usage: 900000, token_reserved: 16384,
    argument_byte_max_limit: 1048576, argument_byte_reset_duration: '1h', argument_byte_current_usage: 1048576, argument_byte_reserved: 0,
    max_concurrent: 4, current_concurrent: null,
  });
  assert.deepEqual(rows.map(({ what, used, most, window, word }) => [what, used, most, window, word]), [
    ['Tokens', '900,000', '1,000,000', '1 hour', 'almost reached'],
    ['Bytes of arguments', '1,048,576', '1,048,576', '1 hour', 'reached'],
    ['At the same time', '?', '4', '', 'not counted here'],
  ]);
});

test('a limit has an owner', () => {
  assert.deepEqual(ownerOf({ team_id: 't', owner_name: 'platform' }), { kind: 'Team', name: 'platform', scope: '' });
  assert.deepEqual(ownerOf({ model_name: 'm', provider: 'p' }), { kind: 'All callers', name: '', scope: 'model m of p' });
  assert.deepEqual(ownerOf({ virtual_key_id: 'k', owner_name: null, mcp_client_name: 'c' }), { kind: 'Key', name: 'k', scope: 'server c' });
});

test('an amount is read as a person types it', () => {
  assert.deepEqual(readAmount(' $1,000.50 ', false), { amount: 1000.5 });
  assert.deepEqual(readAmount('1 000', true), { amount: 1000 });
  assert.deepEqual(readAmount('', true), {});
  for (const [text, isWhole] of [['-1', true], ['1.5', true], ['1e3', false], ['2.1234567', false], ['1,5', false], ['$', true]]) {
    const { amount, fault } = readAmount(text, isWhole);
    assert.ok(text === '$' ? amount === undefined : fault !== undefined, text);
  }
});
