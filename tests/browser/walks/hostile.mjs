// Hostile text from servers, models and callers, in each place where a page shows it.
import { TEXT, faults } from '../support/hostile.mjs';
import { accessibilityFaults } from '../support/axe.mjs';
import { assertNone } from '../support/faults.mjs';
import { sidewaysFaults } from '../support/layout.mjs';
import { stage } from '../support/stage.mjs';
import { walk } from '../support/walk.mjs';

const MARK = /HOSTILE <script>/;

/** Checks the page that is open: nothing runs, nothing links, marks are shown, long text does not widen it, and it is accessible. */
async function isHarmless(visitor, place) {
  const found = await visitor.page.evaluate(faults);
  found.push(...(await visitor.page.evaluate(sidewaysFaults)), ...(await accessibilityFaults(visitor.page)));
  assertNone(found, place);
  visitor.check();
}

/** Opens everything on the page that is folded, so that all of its text is there. */
async function unfold(visitor) {
  await visitor.page.evaluate(() => {
    for (const details of document.querySelectorAll('details:not([open])')) {
      details.open = true;
    }
  });
  await visitor.settle();
}

for (const size of [{ width: 1280, height: 800 }, { width: 320, height: 256 }]) {
  const at = `at ${size.width} pixels`;

  walk(`an approval ${at} shows hostile arguments and definitions as text`, async (visit) => {
    const visitor = await visit('ann', { context: { viewport: size } });
    await visitor.open(`approvals#${stage.waiting.hostile}`);
    await unfold(visitor);
    await visitor.page.getByText(MARK).first().waitFor();
    await isHarmless(visitor, 'approval');
  });

  walk(`a server ${at} shows its hostile name, tools and stderr as text`, async (visit) => {
    const visitor = await visit('ann', { context: { viewport: size } });
    await visitor.open('servers');
    await visitor.page.getByRole('main').getByRole('link', { name: 'hostile', exact: false }).first().click();
    await visitor.settle();
    await unfold(visitor);
    await visitor.page.getByText(MARK).first().waitFor();
    await isHarmless(visitor, 'server');
  });

  walk(`a run ${at} shows its hostile script and calls as text`, async (visit) => {
    const visitor = await visit('ann', { context: { viewport: size } });
    await visitor.open('runs');
    await visitor.page.getByRole('main').getByRole('link', { name: stage.run.slice(0, 12) }).first().click();
    await visitor.settle();
    await unfold(visitor);
    await visitor.page.getByText(MARK).first().waitFor();
    await isHarmless(visitor, 'run');
  });

  walk(`a call ${at} shows hostile arguments, results and errors as text`, async (visit) => {
    const visitor = await visit('ann', { context: { viewport: size } });
    for (const tool of ['hostile-read', 'hostile-fail']) {
      await visitor.open('calls');
      await visitor.page.getByRole('main').getByRole('row', { name: tool }).getByRole('link').first().click();
      await visitor.settle();
      await unfold(visitor);
      await visitor.page.getByText(MARK).first().waitFor();
      await isHarmless(visitor, `call of ${tool}`);
    }
  });
}

walk('the form of a tool whose schema is hostile is harmless, and so is its result', async (visit) => {
  const visitor = await visit('ann');
  const { page } = visitor;
  await visitor.open('try');
  await page.getByLabel(/key/i).first().selectOption({ label: 'desktop' });
  await visitor.settle();
  await page.getByLabel(/tool/i).first().selectOption({ label: 'hostile-read' });
  await visitor.settle();
  await isHarmless(visitor, 'form');
  await page.getByLabel(/text/).first().fill(TEXT);
  await page.getByRole('button', { name: /call|run/i }).click();
  await page.getByText(MARK).first().waitFor();
  await visitor.settle();
  await isHarmless(visitor, 'result');
});
