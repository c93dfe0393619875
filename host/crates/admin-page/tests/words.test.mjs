// Rights of plugins in words, and the set-up of agents.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agents, placeholder } from '../assets/parts/agents.js';
import { curlLine } from '../assets/parts/curl.js';
import { componentLines, grantSentences, grantsFor, requestWords } from '../assets/parts/grants.js';
import { reportTables } from '../assets/parts/report_tables.js';
import { clientBody, EMPTY } from '../assets/parts/server_form.js';
import { keyWords } from '../assets/work/key_words.js';
import { askingWords, callerWords, codeWords, decisionWords, outcomeOf, refusalText } from '../assets/work/words.js';

const REQUESTS = [
  { place: 'http.api', what: ['GET https://api.example.com/v1/**'], reason: 'reads', optional: false },
  { place: 'http.web', what: ['*'], reason: 'reads', optional: true },
  { place: 'secret.token', what: ['in header authorization'], reason: 'signs', optional: false },
  { place: 'kv.__proto__', what: ['1MiB'], reason: 'keeps', optional: false },
  { place: 'clocks', what: [], reason: 'dates', optional: false },
];

test('a request is a sentence', () => {
  assert.equal(requestWords(REQUESTS[0]).sentence, 'sends requests over the network, to GET https://api.example.com/v1/**');
  assert.equal(requestWords(REQUESTS[1]).sentence, 'sends requests over the network, to places that you choose');
  assert.equal(requestWords(REQUESTS[4]).sentence, 'reads the clock');
  assert.equal(requestWords({ place: 'constructor', what: ['x'], reason: '' }).sentence, 'asks for x');
});

test('grants have the form of the configuration', () => {
  const grants = grantsFor(REQUESTS);
  assert.equal(
    JSON.stringify(grants),
    '{"http":["api","web"],"secret":{"token":{"from":"env:VARIABLE"}},"kv":{"__proto__":{}},"clocks":true}',
  );
  assert.deepEqual(grantSentences({ http: ['api'], kv: { cache: {} }, clocks: true, files: { out: { path: 'r' } } }), [
    'sends requests over the network: api', 'keeps entries in a store of its own: cache', 'reads the clock',
    'uses files in a directory that you name: out ({"path":"r"})',
  ]);
  assert.deepEqual(grantSentences(null), []);
});

test('a component that cannot be read has no lines', () => {
  assert.equal(componentLines({ digest: 'sha256:a', problem: 'damaged' }), '');
  assert.equal(componentLines(null), '');
  const lines = componentLines({ id: 'a.b', version: '1.0.0', tools: [{ name: 't', effects: ['http.api'], description: 'x\ny' }] });
  assert.equal(lines, 'id a.b\nversion 1.0.0\ntool t http.api\n    x\n    y');
});

test('a text for an agent never has a foreign character of the name of a key', () => {
  for (const key of [`'; rm -rf /`, 'a"b', 'a b', '\u202e', '', undefined, '$(x)', 'a'.repeat(65)]) {
    assert.equal(placeholder(key), 'VALUE-OF-YOUR-KEY');
  }
  for (const { name, text } of agents('https://gw.example.com', 'ann')) {
    assert.ok(text.includes('https://gw.example.com/'), name);
    assert.doesNotMatch(text, /sk-bf-/);
  }
});

test('each JSON text is valid', () => {
  const texts = agents('http://127.0.0.1:8080', 'ann').filter(({ where }) => /\.json$/.test(where));
  assert.equal(texts.length, 4);
  for (const { text } of texts) JSON.parse(text);
});

test('a line of curl keeps foreign text in its quotes', () => {
  const line = curlLine('https://gw', { method: 'PUT', path: `/api/x/${encodeURIComponent(`a'b`)}`, body: { name: `x'; rm -rf / #`, bidi: '\u202e' } });
  assert.equal(
    line,
    `curl -X PUT 'https://gw/api/x/a'\\''b' -H "Authorization: Bearer $AIRLOCK_OPERATOR_TOKEN" -d '{"name":"x'\\''; rm -rf / #","bidi":"\\u202e"}'`,
  );
  assert.equal(curlLine('https://gw', { method: 'GET', path: '/api/a' }), 'curl https://gw/api/a -H "Authorization: Bearer $AIRLOCK_OPERATOR_TOKEN"');
});

test('a form of a server is an element of the configuration, or has faults', () => {
  const process = clientBody({ ...EMPTY, name: 'time', command: ' uvx ', args: 'mcp-server-time\n\n--utc ', envs: 'A=env.B' });
  assert.deepEqual(process, {
    body: { name: 'time', connection_type: 'stdio', stdio_config: { command: 'uvx', args: ['mcp-server-time', '--utc'], envs: ['A=env.B'] }, tools_to_execute: ['*'] },
    faults: [],
  });
  const remote = clientBody({ ...EMPTY, name: 'docs', kind: 'http', url: 'https://e.com/mcp', headers: 'authorization: env.T', tools: '' });
  assert.deepEqual(remote.body, { name: 'docs', connection_type: 'http', connection_string: 'https://e.com/mcp', headers: { authorization: 'env.T' }, tools_to_execute: [] });
  assert.deepEqual(clientBody({ ...EMPTY, name: 'a b' }).faults.map(({ field }) => field), ['name', 'command']);
  assert.deepEqual(clientBody({ ...EMPTY, name: 'a', kind: 'http', url: 'javascript:x', headers: 'x' }).faults.map(({ field }) => field), ['url', 'headers']);
});

test('a report of any form is facts and tables', () => {
  const { facts, tables } = reportTables({ passed: 3, by: { kind: 'x' }, rows: [{ a: 1, b: 'c' }, { b: [1] }, 7] });
  assert.deepEqual(facts, [['passed', '3'], ['by kind', 'x']]);
  assert.deepEqual(tables, [{ name: 'rows', columns: ['a', 'b'], rows: [['1', 'c'], ['', '[1]'], ['7']], left: 0 }]);
  assert.equal(reportTables([...Array(1000).keys()]).tables[0].left, 500);
  assert.deepEqual(reportTables(null).facts, [['value', 'null']]);
  const deep = JSON.parse(`${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`);
  assert.equal(reportTables(deep).facts.length, 1);
});

test('codes, decisions and parties are words', () => {
  assert.equal(codeWords('airlock.needs_approval'), 'needs approval');
  assert.equal(codeWords('own.code_x'), 'own.code x');
  assert.equal(codeWords(undefined), '');
  assert.deepEqual(['automatic', 'person', 'refused', 'other'].map(decisionWords), ['the settings', 'a person', '', 'other']);
  assert.deepEqual(['key "ann"', 'key "a"b"', 'anonymous', null].map(keyWords), ['ann', 'a"b', 'anonymous', 'no key']);
});

test('the reason of a refused call is that of its error, and any other result has none', () => {
  const result = JSON.stringify({ content: [{ type: 'text', text: 'denied: not today' }], isError: true });
  assert.equal(refusalText({ outcome: 'refused', result }), 'denied: not today');
  assert.equal(refusalText({ outcome: 'error', result }), undefined);
  for (const other of [undefined, 'x', '{}', '{"content":[]}', 'null']) {
    assert.equal(refusalText({ outcome: 'refused', result: other }), undefined, String(other));
  }
});

test('the guards that ask are named with their reasons, unless these are hidden', () => {
  const asked = [{ guard: 'mail', reason: 'to others' }, { guard: 'spend' }];
  assert.equal(askingWords(asked), 'mail: to others; spend');
  assert.equal(askingWords(undefined), '');
});

test('the caller of a call that waits is named by its key, its client and where it comes from', () => {
  assert.equal(callerWords({ key: 'key "ann"', client: 'Claude Code', origin: 'mcp_client' }), 'key ann, client Claude Code, an MCP client');
  assert.equal(callerWords({ key: null, client: null, origin: 'script' }), 'a caller without a key, a script');
  assert.equal(callerWords({ key: 'anonymous' }), 'key anonymous');
});

test('an execution that has stopped for an approval is paused, and a call that was refused is not', () => {
  assert.equal(outcomeOf({ outcome: 'error', error_details: { code: 'needs_approval' } }), 'paused');
  assert.equal(outcomeOf({ outcome: 'error', error_details: { code: 'airlock.needs_approval' } }), 'paused');
  assert.equal(outcomeOf({ outcome: 'refused', error_details: { code: 'needs_approval' } }), 'refused');
  assert.equal(outcomeOf({ outcome: 'error', error_details: { code: 'tool_error' } }), 'error');
  assert.equal(outcomeOf({ outcome: 'success' }), 'success');
});
