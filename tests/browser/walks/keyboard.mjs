// What operators do every day, with the keyboard alone.
import assert from 'node:assert/strict';
import { accessibilityFaults } from '../support/axe.mjs';
import { assertNone } from '../support/faults.mjs';
import { focused } from '../support/layout.mjs';
import { HOSTILE_COMMAND } from '../support/gateway.mjs';
import { stage } from '../support/stage.mjs';
import { walk } from '../support/walk.mjs';
import { until } from '../support/until.mjs';

/** Waits for a dialog, which is accessible, and holds the focus: Tab does not leave it. */
async function dialog(page) {
  await page.getByRole('dialog').waitFor();
  assertNone(await accessibilityFaults(page), 'the dialog');
  for (let pressed = 0; pressed < 10; pressed += 1) {
    await page.keyboard.press('Tab');
    const isInside = await page.evaluate(() => {
      const focus = document.activeElement;
      // Chromium leads from the end of a modal dialog to its own bar, and back.
      return focus === document.body || focus.closest('dialog, [role=dialog]') !== null;
    });
    assert.ok(isInside, 'the focus is behind the dialog');
  }
}

/** Presses Tab until the element of this role and name has the focus, as a person does. Fails if Tab does not reach it. */
async function tabTo(page, role, name) {
  const wanted = page.getByRole(role, { name });
  const passed = [];
  for (let pressed = 0; pressed < 200; pressed += 1) {
    if (await wanted.evaluateAll((all) => all.includes(document.activeElement))) {
      return;
    }
    await page.keyboard.press('Tab');
    passed.push((await page.evaluate(focused))?.name);
  }
  throw new Error(`Tab does not reach the ${role} ${name}; it has passed ${passed.slice(0, 40).join(', ')}`);
}

async function press(page, role, name) {
  await tabTo(page, role, name);
  await page.keyboard.press('Enter');
}

async function type(page, name, text) {
  await tabTo(page, 'textbox', name);
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.insertText(text);
}

walk('an approval is found in the list and given, by keyboard', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: 'keyboard approve' });
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open(`approvals#${id}`);
  await page.getByText('keyboard approve').first().waitFor();
  await press(page, 'button', /^approve/i);
  // What will happen is shown, and has to be confirmed.
  await dialog(page);
  await press(page, 'button', /approve/i);
  await until('the call to be approved', async () => (await stage.gateway.approval(id)) === 'approved');
  const result = await stage.gateway.call(stage.key, 'hostile-note', { text: 'keyboard approve' });
  assert.equal(result._meta?.['airlock/error'], undefined, 'the call runs');
  // Once it is used, the call that the page shows is gone.
  visitor.check(/Failed to load resource: .* 404/);
});

walk('the keys of the list move, open and decide, and can be turned off', async (visit) => {
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('approvals');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: /^deny/i }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await page.keyboard.press('d');
  const reason = page.getByRole('textbox', { name: /reason/i });
  await reason.waitFor();
  // While a person types, letters are text: `a` approves nothing.
  await reason.focus();
  await page.keyboard.type('a d j k ?');
  assert.equal(await reason.inputValue(), 'a d j k ?');
  await page.keyboard.press('Escape');
  visitor.check();
});

walk('a call is denied with a reason that the model reads, by keyboard', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: 'keyboard deny' });
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open(`approvals#${id}`);
  await page.getByText('keyboard deny').first().waitFor();
  await press(page, 'button', /^deny/i);
  await type(page, /reason/i, 'Ask me first about notes.');
  await press(page, 'button', /^deny/i);
  await until('the call to be denied', async () => (await stage.gateway.approval(id)) === 'denied');
  const result = await stage.gateway.call(stage.key, 'hostile-note', { text: 'keyboard deny' });
  assert.match(JSON.stringify(result.content), /Ask me first about notes\./);
  visitor.check(/Failed to load resource: .* 404/);
});

walk('a server is added after a dry connection, by keyboard', async (visit) => {
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('servers');
  await press(page, 'button', /add/i);
  await type(page, /^name/i, 'second');
  await type(page, /command/i, HOSTILE_COMMAND.command);
  await type(page, /arguments/i, HOSTILE_COMMAND.args.join('\n'));
  await press(page, 'button', /test|dry|try/i);
  await page.getByText('note', { exact: false }).first().waitFor();
  assert.equal(await stage.gateway.client('second'), undefined, 'a dry connection keeps nothing');
  await press(page, 'button', /^(save|add)/i);
  await until('the server to be added', async () => (await stage.gateway.client('second'))?.state === 'connected');
  visitor.check();
  await stage.gateway.send('DELETE', '/api/mcp/client/second');
});

walk('a key is revoked after a confirmation, and restored, by keyboard', async (visit) => {
  const value = await stage.gateway.key('to revoke');
  await stage.gateway.call(value, 'hostile-read', { text: 'works' });
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('keys');
  await press(page, 'link', 'to revoke');
  await visitor.settle();
  await press(page, 'button', /^revoke/i);
  await dialog(page);
  await press(page, 'button', /^revoke the key/i);
  await page.getByRole('button', { name: /^restore/i }).waitFor();
  await page.getByText('revoked', { exact: true }).waitFor();
  await assert.rejects(stage.gateway.call(value, 'hostile-read', { text: 'works no more' }));
  await press(page, 'button', /^restore/i);
  await press(page, 'button', /^restore the key/i);
  await page.getByRole('button', { name: /^revoke/i }).waitFor();
  await stage.gateway.call(value, 'hostile-read', { text: 'works again' });
  visitor.check();
});

walk('a key is rotated, and its new value is shown once, by keyboard', async (visit) => {
  const old = await stage.gateway.key('to rotate');
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('keys');
  await press(page, 'link', 'to rotate');
  await visitor.settle();
  await press(page, 'button', /^rotate/i);
  await dialog(page);
  await press(page, 'button', /^rotate/i);
  const value = await page.getByText(/sk-bf-/).first().textContent();
  const rotated = /sk-bf-[\w-]+/.exec(value)[0];
  assert.notEqual(rotated, old);
  await stage.gateway.call(rotated, 'hostile-read', { text: 'works' });
  await page.reload();
  await visitor.settle();
  assert.ok(!(await page.content()).includes(rotated), 'the value is shown once');
  visitor.check();
});
