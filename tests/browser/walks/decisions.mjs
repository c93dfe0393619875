// Two people at once, and a call that is another one than the page has shown.
import assert from 'node:assert/strict';
import { accessibilityFaults } from '../support/axe.mjs';
import { assertNone } from '../support/faults.mjs';
import { stage } from '../support/stage.mjs';
import { walk } from '../support/walk.mjs';
import { until } from '../support/until.mjs';

/** Opens the details of a call that waits. */
async function open(visitor, id, text) {
  await visitor.open(`approvals#${id}`);
  await visitor.page.getByText(text).first().waitFor();
}

async function approve(page) {
  await page.getByRole('button', { name: /^approve/i }).click();
  await page.getByRole('dialog').getByRole('button', { name: /approve/i }).click();
}

walk('the confirmation of an approval shows what is sent and to whom, and Enter alone does not approve', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: 'shown once more' });
  const visitor = await visit('ann');
  const { page } = visitor;
  await open(visitor, id, 'shown once more');
  await page.keyboard.press('a');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('shown once more').waitFor();
  await dialog.getByText(/key desktop, an MCP client/).waitFor();
  await page.keyboard.press('Enter');
  assert.ok(await dialog.isVisible(), 'the first focus is on the arguments');
  assert.equal(await stage.gateway.approval(id), 'pending');
  visitor.check();
});

walk('a call whose arguments have hidden characters has a warning, on the page and in its confirmation', async (visit) => {
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open(`approvals#${stage.waiting.hostile}`);
  const warnings = page.getByRole('list', { name: 'Warnings' });
  await warnings.getByText(/hidden characters/).waitFor();
  await warnings.getByText(/Scroll to their end/).waitFor();
  await page.getByRole('button', { name: /^approve/i }).click();
  await page.getByRole('dialog').getByText(/hidden characters/).waitFor();
  await visitor.open(`approvals#${stage.waiting.plain}`);
  await page.getByRole('button', { name: /^approve/i }).waitFor();
  assert.equal(await warnings.count(), 0);
  visitor.check();
});

walk('of several calls of one tool only those that a person chooses are approved, and their results stay', async (visit) => {
  const ids = [];
  for (const text of ['several: one', 'several: two', 'several: not this']) ids.push(await stage.gateway.wait(stage.key, { text }));
  const visitor = await visit('ann');
  const { page } = visitor;
  await open(visitor, ids[0], 'several: one');
  await page.getByRole('button', { name: /^review all/i }).click();
  const dialog = page.getByRole('dialog');
  assert.ok(await dialog.getByRole('button', { name: 'Approve 0 calls' }).isDisabled(), 'no call is chosen before');
  assertNone(await accessibilityFaults(page), 'the dialog');
  const choices = dialog.getByRole('listitem');
  for (const text of ['several: one', 'several: two']) await choices.filter({ hasText: text }).getByRole('checkbox').check();
  await dialog.getByRole('button', { name: 'Approve 2 calls' }).click();
  await dialog.getByRole('button', { name: 'Close' }).waitFor();
  await until('the list of the page to be without them', async () => (await page.locator('.waiting a:not(.gone)').filter({ hasText: 'several: two' }).count()) === 0);
  assert.equal(await dialog.getByText('approved', { exact: true }).count(), 2);
  assert.deepEqual(await Promise.all(ids.map((id) => stage.gateway.approval(id))), ['approved', 'approved', 'pending']);
  visitor.check();
});

walk('of two approvers one decides, and the other sees it without a reload', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: 'for one of two' });
  const [ann, bob] = [await visit('ann'), await visit('bob')];
  await open(ann, id, 'for one of two');
  await open(bob, id, 'for one of two');
  await approve(ann.page);
  await until('the call to be approved', async () => (await stage.gateway.approval(id)) === 'approved');
  // By the stream of events: approved, and by whom, or no longer there.
  await bob.page.getByRole('button', { name: /^approve/i }).waitFor({ state: 'hidden' });
  ann.check();
  bob.check();
});

walk('of two approvers who decide at the same time one wins, and the other is told', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: 'raced for' });
  const [ann, bob] = [await visit('ann'), await visit('bob')];
  await open(ann, id, 'raced for');
  await open(bob, id, 'raced for');
  // Bob's decision is on its way while Ann's arrives.
  let sent;
  const isSent = new Promise((resolve) => {
    sent = resolve;
  });
  let release;
  const isReleased = new Promise((resolve) => {
    release = resolve;
  });
  await bob.page.route('**/v1/approvals/**', async (route) => {
    if (route.request().method() === 'POST') {
      sent();
      await isReleased;
    }
    await route.continue();
  });
  await approve(bob.page);
  await isSent;
  await ann.page.getByRole('button', { name: /^approve/i }).waitFor();
  await approve(ann.page);
  await until('the call to be approved', async () => (await stage.gateway.approval(id)) === 'approved');
  release();
  await bob.page.getByText(/already|no longer|decided by/i).first().waitFor();
  ann.check();
  bob.check(/Failed to load resource: .* 40[49]/);
});

walk('a call that is not the one that was shown is not approved', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: 'changed meanwhile' });
  const visitor = await visit('ann');
  await visitor.page.route('**/v1/approvals/**', async (route) => {
    const body = route.request().method() === 'POST' ? route.request().postDataJSON() : null;
    if (body?.shown === undefined) {
      await route.continue();
      return;
    }
    const other = body.shown.replace(/[0-9a-f]$/, (digit) => (digit === '0' ? '1' : '0'));
    await route.continue({ postData: JSON.stringify({ ...body, shown: other }) });
  });
  await open(visitor, id, 'changed meanwhile');
  const refused = visitor.page.waitForResponse((response) => response.status() === 409);
  await approve(visitor.page);
  await refused;
  await visitor.page.getByRole('alert').filter({ hasText: /changed/i }).waitFor();
  assert.equal(await stage.gateway.approval(id), 'pending');
  visitor.check(/Failed to load resource: .* 409/);
});

walk('the reason of a denial is shown to other operators, and in the calls once the caller has received it', async (visit) => {
  const args = { text: 'denied for a reason' };
  const id = await stage.gateway.wait(stage.key, args);
  const [ann, bob] = [await visit('ann'), await visit('bob')];
  await open(ann, id, 'denied for a reason');
  await open(bob, id, 'denied for a reason');
  await ann.page.getByRole('button', { name: /^deny/i }).click();
  await ann.page.getByRole('textbox', { name: /reason/i }).fill('not on a Friday');
  await ann.page.getByRole('dialog').getByRole('button', { name: /^deny/i }).click();
  for (const { page } of [ann, bob]) {
    await page.getByText(/Denied by ann/).waitFor();
    await page.getByText('not on a Friday').waitFor();
  }
  await stage.gateway.call(stage.key, 'hostile-note', args);
  const row = ann.page.getByRole('row', { name: 'hostile-note' }).filter({ hasText: 'declined' });
  await until('the call to be in the log', async () => {
    await ann.open('calls?status=refused');
    return (await row.count()) > 0;
  });
  await row.getByRole('link').first().click();
  await ann.page.getByText(/did not run: a person denied it: not on a Friday/).waitFor();
  ann.check(/Failed to load resource: .* 404/);
  bob.check(/Failed to load resource: .* 404/);
});

walk('long arguments are whole on the page, with nothing to open', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: `begin ${'x'.repeat(3_000)} the end of it` });
  const visitor = await visit('ann');
  await open(visitor, id, 'the end of it');
  assert.equal(await visitor.page.getByRole('group', { name: 'Arguments' }).locator('details').count(), 0);
  visitor.check();
});

walk('a call under the rule of two persons shows the first approval, and needs another person', async (visit) => {
  const id = await stage.gateway.wait(stage.key, { text: 'two persons' }, 'hostile-transfer');
  const [ann, bob] = [await visit('ann'), await visit('bob')];
  await open(ann, id, 'two persons');
  await approve(ann.page);
  await open(bob, id, 'two persons');
  await bob.page.getByText(/approved by ann|ann has approved|1 of 2/i).first().waitFor();
  assert.equal(await stage.gateway.approval(id), 'pending');
  await approve(bob.page);
  await until('the call to be approved', async () => (await stage.gateway.approval(id)) === 'approved');
  ann.check();
  bob.check();
});

walk('rows do not move while the pointer is on the list, and new ones are announced', async (visit) => {
  await stage.gateway.wait(stage.key, { text: 'there before' });
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('approvals');
  const row = page.getByRole('main').getByRole('link', { name: /hostile-note/ }).first();
  await row.hover();
  const before = await row.boundingBox();
  await stage.gateway.wait(stage.key, { text: 'arrives meanwhile' });
  await page.getByRole('button', { name: /\d+ new/ }).waitFor();
  assert.deepEqual(await row.boundingBox(), before);
  await page.getByRole('button', { name: /\d+ new/ }).click();
  await page.getByRole('button', { name: /\d+ new/ }).waitFor({ state: 'hidden' });
  visitor.check();
});
