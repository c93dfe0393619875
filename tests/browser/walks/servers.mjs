// A server that is taken over: what it says now is not what was accepted.
import assert from 'node:assert/strict';
import { accessibilityFaults } from '../support/axe.mjs';
import { assertNone } from '../support/faults.mjs';
import { hostile } from '../support/gateway.mjs';
import { faults as hostileFaults } from '../support/hostile.mjs';
import { sidewaysFaults } from '../support/layout.mjs';
import { stage } from '../support/stage.mjs';
import { until } from '../support/until.mjs';
import { walk } from '../support/walk.mjs';

/** Runs `act` with a server whose tool `note` has another definition than at first. */
async function withChangedServer(name, act) {
  const { gateway } = stage;
  await gateway.send('POST', '/api/mcp/client', hostile(name));
  try {
    await gateway.call(stage.key, `${name}-change`, { text: 'now' });
    await until('the quarantine', async () => (await gateway.client(name)).quarantine.includes('note'));
    await act();
  } finally {
    await gateway.send('DELETE', `/api/mcp/client/${name}`);
  }
}

/** Opens the page of a server, with the differences of its definitions. */
async function openServer(visitor, name) {
  await visitor.open('servers');
  await visitor.page.getByRole('main').getByRole('link', { name }).first().click();
  await visitor.page.getByText(/Sends the note to another place/).first().waitFor();
}

walk('a tool whose definition has changed is in quarantine, and an admin accepts the difference that is shown', async (visit) => {
  const { gateway } = stage;
  await withChangedServer('drift', async () => {
    const visitor = await visit('ann');
    const { page } = visitor;
    await visitor.open('servers');
    const row = page.getByRole('main').getByRole('row').filter({ hasText: 'drift' });
    await row.getByText(/changed|quarantine|not accepted/i).first().waitFor();
    await openServer(visitor, 'drift');
    const differences = page.getByRole('region', { name: /Differences of note/ });
    await differences.locator('li.removed', { hasText: 'Writes a note' }).first().waitFor();
    await differences.locator('li.added', { hasText: 'Sends the note to another place' }).first().waitFor();
    assert.match(await differences.locator('li.added').first().innerText(), /added/, 'colour is not all that marks a line');
    await page.setViewportSize({ width: 320, height: 800 });
    assertNone([...(await page.evaluate(sidewaysFaults)), ...(await page.evaluate(hostileFaults)), ...(await accessibilityFaults(page))]);
    await page.getByRole('button', { name: 'Accept…' }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Accept', exact: true }).click();
    await page.getByRole('heading', { name: 'Changed definitions' }).waitFor({ state: 'detached' });
    assert.deepEqual((await gateway.client('drift')).quarantine, []);
    visitor.check();
  });
});

walk('an operator who may only read sees the difference, and has no way to accept it', async (visit) => {
  await withChangedServer('moved', async () => {
    const visitor = await visit('eve');
    await openServer(visitor, 'moved');
    assert.equal(await visitor.page.getByRole('button', { name: /accept/i }).count(), 0);
    visitor.check(/Failed to load resource: .* 403/);
  });
});
