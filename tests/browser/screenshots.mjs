// Pictures of every page, and of what it opens, in both colour schemes, on a desktop and at 320 pixels, for people to look at.
import { pageNames, Visitor } from './support/browser.mjs';
import { stage, start, stop } from './support/stage.mjs';

const SIZES = { desktop: { width: 1280, height: 800 }, narrow: { width: 320, height: 640 } };

/** Takes the pictures of a page. `act` opens something on it before. */
async function pictures(name, path, act) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ['light', 'dark']) {
      const options = { viewport, colorScheme, login: path === 'login' ? undefined : stage.logins.ann };
      const visitor = await Visitor.of(stage.browser, stage.gateway.address, options);
      await visitor.open(path);
      await act?.(visitor.page);
      await visitor.settle();
      console.log(await visitor.picture(`${name} ${size} ${colorScheme}`));
      await visitor.close();
    }
  }
}

await start();
try {
  for (const name of [...pageNames(), 'login']) {
    await pictures(name, name);
  }
  await pictures('approval', `approvals#${stage.waiting.plain}`);
  await pictures('approval-hostile', `approvals#${stage.waiting.hostile}`);
  await pictures('approval-script', `approvals#${stage.run}:2`);
  for (const [name, button] of [['approve', /^approve/i], ['deny', /^deny/i], ['several', /^review all/i]]) {
    await pictures(`approval-${name}`, `approvals#${stage.waiting.plain}`, (page) => page.getByRole('button', { name: button }).click());
  }
  await pictures('call', 'calls', (page) => page.getByRole('row', { name: 'executeToolCode' }).getByRole('link').click());
  await pictures('run', `runs#${stage.run}`);
  await pictures('server', 'servers#server=hostile');
  await pictures('server-new', 'servers#add');
  await pictures('key', 'keys#key=desktop');
  await pictures('key-new', 'keys', (page) => page.getByRole('button', { name: /^make a key/i }).click());
  await pictures('limits', 'keys#limits');
  await pictures('try-form', 'try', (page) => page.getByLabel('Tool').selectOption({ label: 'hostile-read' }));
} finally {
  await stop();
}
