// Runs: their times, and the check by a replay.
import assert from 'node:assert/strict';
import { accessibilityFaults } from '../support/axe.mjs';
import { assertNone } from '../support/faults.mjs';
import { sidewaysFaults, tabStops } from '../support/layout.mjs';
import { stage } from '../support/stage.mjs';
import { until } from '../support/until.mjs';
import { walk } from '../support/walk.mjs';

/** Executes a script that ends, and waits for its rows in the call log. Returns the identifier of its run. */
async function ended() {
  const { gateway } = stage;
  await gateway.call(stage.key, 'executeToolCode', { code: 'first = scripts.read(text="begin")\nprint("done")\nresult = 7\n' });
  const { data } = await gateway.send('GET', '/api/runs?state=completed&limit=1');
  await until('the rows of the run', async () => (await gateway.send('GET', `/api/mcp-logs?run_ids=${data[0].id}`)).logs.length > 0);
  return data[0].id;
}

walk('a run has a timeline of its execution and its calls, also at 320 pixels and by keyboard', async (visit) => {
  const run = await ended();
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open(`runs#${run}`);
  const times = page.getByRole('list', { name: 'Times of the run' });
  await times.getByRole('link', { name: 'The script runs' }).waitFor();
  await times.getByRole('link', { name: 'scripts-read' }).waitFor();
  const bars = await times.locator('svg.bar rect').evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().width));
  assert.ok(bars.length === 2 && bars.every((width) => width > 0), `the bars are ${bars} wide`);
  assert.equal(await times.locator('[style]').count(), 0, 'the policy permits no styles in elements');
  await page.setViewportSize({ width: 320, height: 800 });
  const stops = await tabStops(page);
  assert.ok(stops.some(({ name }) => name.includes('The script runs')), 'a row is reached by Tab');
  assertNone([...(await page.evaluate(sidewaysFaults)), ...(await accessibilityFaults(page))]);
  visitor.check();
});

walk('a replay says that a run is the same, and an operator who may only read cannot start one', async (visit) => {
  const run = await ended();
  const visitor = await visit('ann');
  await visitor.open(`runs#${run}`);
  await visitor.page.getByRole('button', { name: 'Replay', exact: true }).click();
  await visitor.page.getByText('The replay is the same').waitFor();
  visitor.check();
  const reader = await visit('eve');
  await reader.open(`runs#${run}`);
  assert.equal(await reader.page.getByRole('button', { name: 'Replay', exact: true }).count(), 0);
  reader.check(/Failed to load resource: .* 403/);
});
