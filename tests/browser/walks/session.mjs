// A stream that is lost, and a login that ends.
import assert from 'node:assert/strict';
import { Proxy } from '../support/proxy.mjs';
import { stage } from '../support/stage.mjs';
import { until } from '../support/until.mjs';
import { walk } from '../support/walk.mjs';

walk('a stream that was cut is resumed, and the page says that it was', async (visit) => {
  const proxy = await Proxy.to(stage.gateway.address);
  try {
    const visitor = await visit(undefined, { origin: proxy.address });
    const { page } = visitor;
    await visitor.logIn(stage.tokens.ann);
    await visitor.open('approvals');
    proxy.cut();
    await page.getByText(/reconnect|disconnected|connection lost|offline/i).first().waitFor();
    await stage.gateway.wait(stage.key, { text: 'while it was cut' });
    proxy.mend();
    await page.getByText(/reconnect|disconnected|connection lost|offline/i).first().waitFor({ state: 'hidden', timeout: 30_000 });
    const fresh = page.getByRole('button', { name: /\d+ new/ });
    await page.getByText('while it was cut').or(fresh).first().waitFor();
    visitor.check(/ERR_|Failed to load resource|network/i);
  } finally {
    proxy.close();
  }
});

walk('a list is shown although it changes faster than it loads', async (visit) => {
  const key = await stage.gateway.key('fast');
  const visitor = await visit('ann');
  const { page } = visitor;
  // Each answer arrives after the next request.
  let release;
  await page.route(/\/v1\/approvals\?.*offset=0$/, async (route) => {
    release?.();
    await new Promise((resolve) => {
      release = resolve;
    });
    await route.continue();
  });
  await page.goto('/admin/approvals');
  const list = page.getByRole('region', { name: 'Calls that wait' });
  for (let change = 0; change < 10 && !(await list.isVisible()); change += 1) {
    const asked = page.waitForRequest(/\/v1\/approvals\?.*offset=0$/);
    await stage.gateway.wait(key, { text: `change ${change}` });
    await asked;
    await list.waitFor({ timeout: 1_000 }).catch(() => {});
  }
  await list.waitFor();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  release();
  visitor.check();
});

walk('a login that ends is renewed in place, and what was typed is still there', async (visit) => {
  const token = await stage.gateway.operator('leaving', 'admin');
  const id = await stage.gateway.wait(stage.key, { text: 'during the end of a login' });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.logIn(token);
  await visitor.open(`approvals#${id}`);
  await page.getByRole('button', { name: /^deny/i }).click();
  const reason = page.getByRole('textbox', { name: /reason/i });
  await reason.fill('typed before the end');
  await stage.gateway.send('DELETE', '/api/operators/leaving');
  const again = page.getByRole('dialog').getByLabel(/token/i);
  // The stream of events may have told the page already, whose dialog is then before the button.
  if (!(await again.isVisible())) {
    const deny = page.getByRole('dialog').getByRole('button', { name: /^deny/i });
    await deny.or(page.getByRole('button', { name: /^deny/i })).last().click({ timeout: 2_000 }).catch(() => {});
  }
  await again.fill(stage.tokens.ann);
  await again.press('Enter');
  await again.waitFor({ state: 'hidden' });
  assert.ok(page.url().includes(id), 'the page is the same');
  // It is sent with the new login, or waits for the person to send it.
  await until('the reason to be there or sent', async () => {
    const isSent = (await stage.gateway.approval(id)) === 'denied';
    return isSent || ((await reason.isVisible()) && (await reason.inputValue()) === 'typed before the end');
  });
  visitor.check(/Failed to load resource: .* 401/);
});

walk('the token of a login can be pasted, and a wrong one is refused in words', async (visit) => {
  const visitor = await visit();
  const { page } = visitor;
  await page.goto('/admin/login');
  const field = page.getByLabel(/token/i).first();
  await field.fill('alop_wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').first().waitFor();
  assert.match(new URL(page.url()).pathname, /login$/);
  await page.evaluate((token) => navigator.clipboard.writeText(token), stage.tokens.ann);
  await field.focus();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.press('ControlOrMeta+V');
  assert.equal(await field.inputValue(), stage.tokens.ann);
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => !url.pathname.endsWith('/login'));
  visitor.check(/Failed to load resource: .* 401/);
});

walk('the login offers an identity provider only where the gateway has one', async (visit) => {
  const visitor = await visit();
  const { page } = visitor;
  const link = page.getByRole('link', { name: 'Use the identity provider' });
  await visitor.open('login');
  assert.equal(await link.count(), 0);
  await page.route('**/admin/login.json', (route) => route.fulfill({ json: { identity_provider: true } }));
  await visitor.open('login');
  await link.waitFor();
  assert.match(await link.getAttribute('href'), /^\/api\/session\/login\?return_to=/);
  visitor.check();
});

walk('the credential is in no address, no storage that outlives the tab, and is gone after a logout', async (visit) => {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.logIn(stage.tokens.ann);
  assert.ok(!page.url().includes(stage.tokens.ann));
  assert.ok(!(await page.evaluate(() => JSON.stringify({ ...localStorage }))).includes(stage.tokens.ann));
  await page.getByRole('button', { name: /(log|sign) out/i }).click();
  await page.getByLabel(/token/i).first().waitFor();
  assert.ok(!(await page.evaluate(() => JSON.stringify({ ...sessionStorage }))).includes(stage.tokens.ann));
  await page.goto('/admin/approvals');
  await page.getByLabel(/token/i).first().waitFor();
  visitor.check(/Failed to load resource: .* 401/);
});
