// A server that is taken over: what it says now is not what was accepted.
import { hostile } from '../support/gateway.mjs';
import { stage } from '../support/stage.mjs';
import { until } from '../support/until.mjs';
import { walk } from '../support/walk.mjs';

walk('a tool whose definition has changed is in quarantine, and the page says so in words', async (visit) => {
  const { gateway } = stage;
  await gateway.send('POST', '/api/mcp/client', hostile('drift'));
  try {
    await gateway.call(stage.key, 'drift-change', { text: 'now' });
    await until('the quarantine', async () => (await gateway.client('drift')).quarantine.includes('note'));
    const visitor = await visit('ann');
    const { page } = visitor;
    await visitor.open('servers');
    const row = page.getByRole('main').getByRole('row').filter({ hasText: 'drift' });
    await row.getByText(/changed|quarantine|not accepted/i).first().waitFor();
    await page.getByRole('main').getByRole('link', { name: 'drift' }).first().click();
    await page.getByText(/Sends the note to another place/).or(page.getByText(/changed|quarantine|not accepted/i)).first().waitFor();
    visitor.check();
  } finally {
    await gateway.send('DELETE', '/api/mcp/client/drift');
  }
});
