// Checked by `tsc --noEmit`, not run: the settings of a guard have the types of their schema.
import { Gateway } from '../guard-testing.js';
import { allow, deny, guard, rewrite, s, type Verdict } from '../guard.js';

export const hooks = guard({
  settings: s.object({ domain: s.string().default('example.com') }),
  before(call) {
    const domain: string = call.settings.domain;
    // @ts-expect-error: there is no such setting
    call.settings.domains;
    return call.arguments.to === domain ? allow() : deny('foreign_domain', `mail goes to ${domain} alone`);
  },
  after: (_, outcome) => (outcome.isFailure ? allow() : rewrite({ ...outcome.value, content: [] })),
  beforeModel: (exchange) => exchange.rewrite(({ role, text }) => (role === 'user' ? text.trim() : undefined)),
});
// @ts-expect-error: a hook returns a verdict
guard({ before: () => true });
// @ts-expect-error: and is not async
guard({ before: async () => allow() });

const verdict: Verdict = new Gateway(hooks, { settings: { domain: 'a' } }).before('mail-send', {}, { key: 'ann', effects: { readOnly: true } });
verdict.type satisfies 'allow' | 'rewrite' | 'deny' | 'ask';
