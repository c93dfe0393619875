import { allow, deny, guard, rewriteText, s } from './airlock-plugin/guard.js';

/** The address that results do not show. */
const SENDER = 'robot@example.com';

export const hooks = guard({
  /** The settings, in `guards[].settings` of the gateway's configuration. */
  settings: s.object({ domain: s.string().min(1).default('example.com').describe('The domain that mail may go to.') }),

  before({ arguments: { to }, settings: { domain } }) {
    // Of one address alone: a list has a second `@`.
    const [, host, ...more] = typeof to === 'string' ? to.split('@') : [];
    return host === domain && more.length === 0 ? allow() : deny('foreign_domain', `mail goes to ${domain} alone`);
  },

  after(call, { text }) {
    // The address has no character that JSON escapes.
    return text.includes(SENDER) ? rewriteText(text.replaceAll(SENDER, '[sender]')) : allow();
  },
});
