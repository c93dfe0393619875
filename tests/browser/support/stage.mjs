// The browser and the gateway that all tests share.
import { launch, Visitor } from './browser.mjs';
import { Gateway } from './gateway.mjs';
import { seed } from './seed.mjs';

/** What all tests share: `browser`, `gateway`, the `logins` of the operators, and what [`seed`] has made. */
export const stage = { logins: {} };

/** Starts everything, and logs each operator in once as a person does. */
export async function start() {
  stage.gateway = await Gateway.start();
  Object.assign(stage, await seed(stage.gateway));
  stage.browser = await launch();
  for (const [name, token] of Object.entries(stage.tokens)) {
    const visitor = await Visitor.of(stage.browser, stage.gateway.address);
    try {
      stage.logins[name] = await visitor.logIn(token);
    } catch (error) {
      await explain(error, `login of ${name}`, [visitor]);
      throw error;
    }
    await visitor.close();
  }
}

/** Ends what [`start`] has started. */
export async function stop() {
  await stage.browser?.close();
  await stage.gateway?.stop();
}

/** Adds to an error where each visitor was, what went wrong there, and a picture. */
export async function explain(error, name, visitors) {
  for (const [number, visitor] of visitors.entries()) {
    const picture = await visitor.picture(`${name}-${number}`, {}).catch((failed) => `no picture: ${failed.message}`);
    const problems = visitor.problems.map((problem) => `\n    ${problem}`).join('');
    error.message += `\n  at ${visitor.page.url()}, see ${picture}${problems}`;
  }
}
