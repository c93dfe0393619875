// The two pictures of the README, with servers as in an office: a call that waits, and the call log.
import { fileURLToPath } from 'node:url';
import { launch, Visitor } from './support/browser.mjs';
import { Gateway } from './support/gateway.mjs';
import { until } from './support/until.mjs';

const SERVER = fileURLToPath(new URL('office_server.mjs', import.meta.url));
/** Names of the servers, with the tools that need no approval. */
const AUTOMATIC = { tracker: ['list_issues'], files: ['read_file'], mail: [] };
const READS = [
  ['claude-code', 'files-read_file', { path: 'src/release.rs' }], ['claude-code', 'tracker-list_issues', { project: 'gateway' }],
  ['support-bot', 'tracker-list_issues', { project: 'support' }], ['release-bot', 'files-read_file', { path: 'missing/CHANGELOG.md' }],
  ['support-bot', 'files-delete_file', { path: 'notes.txt' }], ['release-bot', 'tracker-list_issues', { project: 'gateway' }],
  ['claude-code', 'files-read_file', { path: 'CHANGELOG.md' }], ['support-bot', 'tracker-list_issues', { project: 'support' }],
  ['release-bot', 'files-read_file', { path: 'CHANGELOG.md' }],
];
const WAITING = [
  ['support-bot', 'mail-send', { to: 'ada@example.com', subject: 'Your ticket', text: 'The fix is in version 2.14.' }],
  ['claude-code', 'tracker-close_issue', { issue: 4211, comment: 'Fixed in 2.14: the retry now waits for the cool-down.' }],
  ['release-bot', 'files-write_file', { path: 'CHANGELOG.md', text: '## 2.14' }],
];

async function start() {
  const gateway = await Gateway.start();
  for (const [name, automatic] of Object.entries(AUTOMATIC)) {
    const own = { command: process.execPath, args: [SERVER, name], envs: ['PATH'] };
    await gateway.send('POST', '/api/mcp/client', { name, connection_type: 'stdio', stdio_config: own, tools_to_execute: ['*'], tools_to_auto_execute: automatic, allow_on_all_virtual_keys: true });
    await until(`${name} to be connected`, async () => (await gateway.client(name))?.state === 'connected');
  }
  return gateway;
}

const gateway = await start();
const browser = await launch();
try {
  const keys = {};
  for (const name of ['claude-code', 'support-bot', 'release-bot']) keys[name] = await gateway.key(name);
  // A tool that does not exist is refused.
  for (const [key, tool, args] of READS) await gateway.call(keys[key], tool, args).catch(() => {});
  const duplicate = { issue: 4198, comment: 'A duplicate of 4211.' };
  const id = await gateway.wait(keys['claude-code'], duplicate, 'tracker-close_issue');
  const token = await gateway.operator('ann', 'admin');
  const headers = { authorization: `Bearer ${token}` };
  const { shown } = await gateway.send('GET', `/v1/approvals/${id}`, undefined, headers);
  await gateway.send('POST', `/v1/approvals/${id}/approve`, { shown }, headers);
  await gateway.call(keys['claude-code'], 'tracker-close_issue', duplicate);
  const waiting = [];
  for (const [key, tool, args] of WAITING) waiting.push(await gateway.wait(keys[key], args, tool));
  const visitor = await Visitor.of(browser, gateway.address);
  await visitor.logIn(token);
  for (const [name, path] of [['approval', `approvals#${waiting[1]}`], ['calls', 'calls']]) {
    await visitor.page.goto('about:blank');
    await visitor.open(path);
    console.log(await visitor.picture(name, {}));
  }
  await visitor.close();
} finally {
  await browser.close();
  await gateway.stop();
}
