// Pictures of every page, in both colour schemes, on a desktop and at 320 pixels, for people to look at.
import { pageNames, Visitor } from './support/browser.mjs';
import { stage, start, stop } from './support/stage.mjs';

const SIZES = { desktop: { width: 1280, height: 800 }, narrow: { width: 320, height: 640 } };

async function pictures(name, path) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ['light', 'dark']) {
      const options = { viewport, colorScheme, login: path === 'login' ? undefined : stage.logins.ann };
      const visitor = await Visitor.of(stage.browser, stage.gateway.address, options);
      await visitor.open(path);
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
} finally {
  await stop();
}
