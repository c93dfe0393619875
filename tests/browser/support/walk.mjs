// A test whose failure leaves pictures of what was on the screens.
import { test } from 'node:test';
import { Visitor } from './browser.mjs';
import { explain, stage } from './stage.mjs';

/** Defines a test. `body` gets a function that opens a visitor: `await visit('ann', { viewport })`. */
export function walk(name, body) {
  test(name, { timeout: 120_000 }, async () => {
    const visitors = [];
    const visit = async (operator, options = {}) => {
      const login = operator === undefined ? undefined : stage.logins[operator];
      const origin = options.origin ?? stage.gateway.address;
      const visitor = await Visitor.of(stage.browser, origin, { login, ...options.context });
      visitors.push(visitor);
      return visitor;
    };
    try {
      await body(visit);
    } catch (error) {
      await explain(error, name, visitors);
      throw error;
    } finally {
      await Promise.all(visitors.map((visitor) => visitor.close()));
    }
  });
}
