// Many approvals, calls and keys, so that the pages have something to show.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { LONG, TEXT } from './hostile.mjs';

/** Identifiers of version 7 in the order of time, as the call log has them. */
const ROWS = `
import sqlite3, sys, uuid, random
path, count, now = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(1)
states = ["success"] * 8 + ["error", "refused"]
def rows():
    for number in range(count):
        at = now - 20 * number
        bits = (at << 80) | (7 << 76) | (random.getrandbits(12) << 64) | (2 << 62) | random.getrandbits(62)
        status = states[number % len(states)]
        yield (str(uuid.UUID(int=bits)), at, status, "hostile-read", "hostile", "mcp_client", "automatic",
               f"seed {number % 7}", "code" if status == "error" else None, 1000 + number % 90000)
store = sqlite3.connect(path, timeout=30)
with store:
    store.executemany("INSERT INTO tool_log (id, at_ms, status, tool, client, origin, decision, key_name, code, duration_us)"
                      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows())
`;

/** Adds rows to the call log of a gateway's store, which are older than all that it writes itself. */
export function seedCalls(gateway, count) {
  const store = join(gateway.directory, 'airlock.db');
  const before = Date.now() - 3_600_000;
  execFileSync('python3', ['-c', ROWS, store, String(count), String(before)], { stdio: 'inherit' });
}

/** Makes calls that wait, at most 64 of one key: `keys` keys with `each` calls. */
export async function seedApprovals(gateway, keys, each) {
  for (let number = 0; number < keys; number += 1) {
    const key = await gateway.key(`many ${number}`);
    const calls = Array.from({ length: each }, (_, at) => gateway.wait(key, { text: `note ${number}/${at}` }));
    await Promise.all(calls);
  }
}

/** Stops at its second call, which needs an approval. */
const SCRIPT = `# ${TEXT.replaceAll('\u0000', '')}
first = scripts.read(text="begin")
second = scripts.note(text=${JSON.stringify('from a script, HOSTILE <script>')})
result = second
`;

/** Runs a script that waits for an approval. Returns the identifier of its run. */
async function seedRun(gateway, key) {
  const result = await gateway.call(key, 'executeToolCode', { code: SCRIPT });
  const run = JSON.stringify(result._meta ?? {}).match(/run_[0-9a-z]+/)?.[0];
  if (run === undefined) {
    throw new Error(`the script does not wait: ${JSON.stringify(result).slice(0, 1000)}`);
  }
  return run;
}

/** Makes what the pages show in all other tests: operators, keys, calls that ran and one of each hostile text that waits. */
export async function seed(gateway) {
  const tokens = {
    ann: await gateway.operator('ann', 'admin'),
    bob: await gateway.operator('bob', 'approver'),
    eve: await gateway.operator('eve', 'viewer', {}),
  };
  await gateway.send('POST', '/api/governance/customers', { name: 'Acme' });
  await gateway.send('POST', '/api/governance/teams', { name: 'platform', customer_id: 'Acme' });
  const limits = {
    budgets: [{ max_limit: 50, reset_duration: '1M' }],
    rate_limit: { tool_call_max_limit: 1000, tool_call_reset_duration: '1m' },
  };
  const key = await gateway.key('desktop', { team_id: 'platform', ...limits });
  await gateway.call(key, 'hostile-read', { text: TEXT });
  await gateway.call(key, 'hostile-fail', { text: LONG });
  const waiting = {
    hostile: await gateway.wait(key, { text: TEXT, [TEXT.slice(0, 60)]: LONG }),
    plain: await gateway.wait(key, { text: 'buy milk' }),
  };
  const run = await seedRun(gateway, key);
  return { tokens, key, waiting, run };
}
