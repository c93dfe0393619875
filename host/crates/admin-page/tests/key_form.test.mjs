// Tools and limits of keys as people type them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limitsBody, limitsForm, readTools, toolsText } from '../assets/parts/key_form.js';

test('rows of tools are text and back', () => {
  const rows = [{ mcp_client_name: 'time', tools_to_execute: ['*'] }, { mcp_client_name: 'files', tools_to_execute: ['read', 'list'] }];
  assert.equal(toolsText(rows), 'time\nfiles: read, list');
  assert.deepEqual(readTools(toolsText(rows)), { rows, faults: [] });
  assert.deepEqual(readTools(' \n'), { rows: [], faults: [] });
  assert.equal(readTools('two words').faults.length, 1);
  assert.equal(readTools('files:').faults.length, 1);
});

test('rows with more than tools are no text, so that nothing is lost', () => {
  for (const more of [{ rate_limit: { max_concurrent: 1 } }, { tools_to_exclude: ['a'] }, { tools_to_execute: undefined }]) {
    assert.equal(toolsText([{ mcp_client_name: 'a', tools_to_execute: ['b'], ...more }]), null);
  }
  assert.equal(toolsText([{ mcp_client_name: 'a', tools_to_execute: ['b'], tools_to_exclude: [], rate_limit: null }]), 'a: b');
});

test('limits are a form and back', () => {
  const element = {
    budgets: [{ max_limit: 2.5, reset_duration: '1d' }],
    rate_limit: { tool_call_max_limit: 100, tool_call_reset_duration: '90m', argument_byte_max_limit: 1000000, argument_byte_reset_duration: '1h', max_concurrent: 4 },
  };
  const form = limitsForm(element);
  assert.deepEqual([form.money, form.money_window, form.tool_call, form.tool_call_window, form.token, form.concurrent], ['2.5', '1d', '100', '90m', '', '4']);
  assert.deepEqual([form.argument_byte, form.argument_byte_window], ['1000000', '1h']);
  assert.deepEqual(limitsBody(form), { body: element, faults: [] });
});

test('empty fields remove limits, and 0 is a limit', () => {
  const none = limitsBody(limitsForm({ budgets: null, rate_limit: null }));
  assert.deepEqual(none, { body: { budgets: [], rate_limit: {} }, faults: [] });
  const zero = limitsBody({ ...limitsForm({}), money: '0', token: '0' });
  assert.deepEqual(zero.body.budgets, [{ max_limit: 0, reset_duration: '1M' }]);
  assert.equal(zero.body.rate_limit.token_max_limit, 0);
});

test('budgets that the form cannot show stay as they are', () => {
  for (const budgets of [[{ max_limit: 1, reset_duration: '1d' }, { max_limit: 5, reset_duration: '1M' }], [{ max_limit: 1, reset_duration: '1Q', reset_config: { quarter_start_month: 2 } }]]) {
    const form = limitsForm({ budgets });
    assert.equal(form.isOdd, true);
    assert.equal('budgets' in limitsBody(form).body, false);
  }
});

test('an amount that is none is a fault', () => {
  assert.equal(limitsBody({ ...limitsForm({}), request: '1.5', concurrent: '-1' }).faults.length, 2);
});
