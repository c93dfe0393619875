// 1,000 calls that wait and 100,000 calls in the log.
import assert from 'node:assert/strict';
import { accessibilityFaults } from '../support/axe.mjs';
import { assertNone } from '../support/faults.mjs';
import { seedApprovals, seedCalls } from '../support/seed.mjs';
import { stage } from '../support/stage.mjs';
import { walk } from '../support/walk.mjs';

const WAITING = 1_000;
const CALLS = 100_000;
/** Time until a list is there, in milliseconds; on two cores with a debug build. */
const LIST = 2_000;
/** Time until the page has responded to a key. */
const RESPONSE = 500;

/** Runs an action and returns the milliseconds that it took. */
async function time(action) {
  const begun = performance.now();
  await action();
  return Math.round(performance.now() - begun);
}

walk(`${WAITING} calls that wait are listed in ${LIST} ms, and a key is obeyed in ${RESPONSE} ms`, async (visit) => {
  await seedApprovals(stage.gateway, WAITING / 50, 50);
  const visitor = await visit('ann');
  const { page } = visitor;
  const listed = await time(() => visitor.open('approvals'));
  await page.getByText(/1,?\d{3}/).first().waitFor();
  await page.keyboard.press('j');
  const moved = await time(async () => {
    await page.keyboard.press('j');
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  });
  console.log(`${WAITING} approvals: listed in ${listed} ms, next in ${moved} ms`);
  assert.ok(listed < LIST, `listed in ${listed} ms`);
  assert.ok(moved < RESPONSE, `next in ${moved} ms`);
  assertNone(await accessibilityFaults(page));
  visitor.check();
});

walk(`${CALLS} calls are listed in ${LIST} ms, page by page`, async (visit) => {
  seedCalls(stage.gateway, CALLS);
  const visitor = await visit('ann');
  const { page } = visitor;
  const listed = await time(() => visitor.open('calls'));
  const rows = page.getByRole('main').getByRole('row');
  const first = await rows.nth(1).textContent();
  const turned = await time(async () => {
    await page.getByRole('button', { name: /next|older|more/i }).or(page.getByRole('link', { name: /next|older|more/i })).first().click();
    await visitor.settle();
  });
  console.log(`${CALLS} calls: listed in ${listed} ms, next page in ${turned} ms`);
  assert.ok(listed < LIST, `listed in ${listed} ms`);
  assert.ok(turned < LIST, `next page in ${turned} ms`);
  assert.ok((await rows.count()) > 10, 'there are rows');
  assert.notEqual(await rows.last().textContent(), first);
  visitor.check();
});
