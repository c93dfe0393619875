import assert from 'node:assert/strict';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { test } from 'node:test';

import * as sdk from '../index.js';
import * as config from '../config.js';
import * as http from '../http.js';
import * as kv from '../kv.js';
import * as secrets from '../secrets.js';
import { reveal } from '../secrets-reveal.js';
import { Host, Refusal } from '../testing.js';
import * as tools from '../tools.js';
import { contentFromHost, contentToHost, errorFromHost, errorToHost, outputFromHost, outputToHost } from '../wire.js';

const { Output, ToolError, log, plugin, s, tool } = sdk;

const PARTS = [
  sdk.text('a', { annotations: { audience: ['user'] }, meta: { k: 1 }, extra: { x: [] } }),
  sdk.image(new Uint8Array([0x89]), 'image/png'),
  sdk.audio(new Uint8Array([1, 2]), 'audio/wav'),
  sdk.resourceLink('file:///a', 'a', { title: 'A', description: 'd', mimeType: 'text/plain', size: 2 ** 40, extra: { icons: [] } }),
  sdk.embeddedResource('file:///b', 'text', { mimeType: 'text/plain', resourceMeta: { m: 1 }, resourceExtra: { x: 1 } }),
  sdk.embeddedResource('file:///c', new Uint8Array([0])),
  sdk.other({ type: 'chart', rows: 2 }),
];

const define = (run, more = {}) => tool({ name: 'it', description: 'Does it.', run, ...more });
const called = (run, { host = new Host(), args, ...more } = {}) => host.call(plugin(define(run, more)), 'it', args);
const plain = (value) => JSON.parse(JSON.stringify(value));

test('every part crosses the contract without loss', () => {
  const crossed = PARTS.map((part) => contentFromHost(contentToHost(part)));
  assert.deepEqual(crossed.map(plain), PARTS.map(plain));
  assert.deepEqual(crossed[1].data, PARTS[1].data);
  assert.equal(contentToHost(PARTS[3]).block.val.size, 2n ** 40n);
});

test('a failure crosses the contract without loss', () => {
  const more = { code: 'slow', retryAfterMs: 5, content: PARTS, details: [1], meta: { m: 1 }, extra: { ttl: 7 } };
  const given = new ToolError('rate-limited', 'wait', more);
  const { kind, message, ...rest } = errorFromHost(errorToHost(given));
  assert.deepEqual([kind, message, plain(rest)], ['rate-limited', 'wait', plain({ name: 'ToolError', ...more })]);
});

test('a result crosses the contract without loss', () => {
  const given = new Output({ content: PARTS, structuredContent: { a: [1, null] }, meta: { m: 1 }, extra: { ttl: 7 } });
  const sent = outputToHost(given);
  assert.deepEqual([sent.meta, sent.extra], ['{"m":1}', '{"ttl":7}']);
  assert.deepEqual(plain(outputFromHost(sent)), plain(given));
});

test('the kinds of a failure are those of the contract', async () => {
  const wit = await readFile(new URL('../../../wit/types/0.1.0/types.wit', import.meta.url), 'utf8');
  const [, cases] = /enum error-kind \{(.*?)\n    \}/s.exec(wit);
  const kinds = [...cases.matchAll(/^ +([a-z-]+),$/gm)].map(([, kind]) => kind);
  assert.ok(kinds.includes('limit-reached'));
  for (const kind of kinds) assert.equal(errorToHost(new ToolError(kind, 'x')).kind, kind);
  assert.throws(() => new ToolError('', 'x'), { message: `there is no kind of failure ''; known are ${kinds.join(', ')}` });
});

test('an error of the host is known by its code', () => {
  const codes = ['airlock.deadline', 'airlock', 'deadline', undefined];
  const errors = codes.map((code) => new ToolError('internal', 'x', { code }));
  assert.deepEqual(errors.map(({ isFromHost }) => isFromHost), [true, false, false, false]);
  assert.equal(Object.assign(errors[0], { code: 7 }).isFromHost, false);
  const caught = (name, host) => host.run(() => tools.callBatch([{ name }]))[0];
  const failing = () => {
    throw errors[2];
  };
  assert.deepEqual(['slot', 'unknown'].map((name) => caught(name, new Host({ tools: { slot: failing } })).isFromHost), [false, true]);
});

test('an object is data with a text, a string is a text, and parts stay parts', async () => {
  const data = await called(() => ({ celsius: 4 }));
  assert.deepEqual([data.structuredContent, data.firstText], [{ celsius: 4 }, '{"celsius":4}']);
  assert.equal((await called(() => 'words')).firstText, 'words');
  const list = await called(async () => [1, 2]);
  assert.deepEqual([list.structuredContent, list.data()], [undefined, [1, 2]]);
  assert.equal((await called(() => PARTS)).content.length, PARTS.length);
  assert.equal((await called(() => {})).content.length, 0);
  const both = await called(() => new Output({ content: ['cold', PARTS[1]], structuredContent: { n: 1 }, meta: { m: 1 } }));
  assert.deepEqual([both.firstText, both.structuredContent, both.meta], ['cold', { n: 1 }, { m: 1 }]);
});

test('data that looks like a part is data', async () => {
  assert.deepEqual((await called(() => ({ type: 'text', text: 'a' }))).structuredContent, { type: 'text', text: 'a' });
});

test('data may be any JSON value, and the result of another tool can be returned unchanged', async () => {
  for (const value of [[1], 'words', 0, false, null, {}]) {
    const host = new Host({ tools: { other: () => new Output({ structuredContent: value }) } });
    const output = await called(() => tools.call('other'), { host });
    assert.deepEqual([output.structuredContent, output.data()], [value, value]);
  }
  assert.equal((await called(() => new Output())).structuredContent, undefined);
});

test('data that is no JSON value is a fault of the tool', async () => {
  const cyclic = {};
  cyclic.self = cyclic;
  for (const value of [() => {}, 1n, Symbol('s'), cyclic]) {
    const message = /^TypeError: structuredContent must be a JSON value/;
    await assert.rejects(called(() => new Output({ structuredContent: value })), { kind: 'internal', message });
  }
  for (const [member, value] of [['meta', [1]], ['extra', [1]], ['extra', 'x'], ['extra', new Date(0)]]) {
    const message = `TypeError: ${member} must be an object`;
    await assert.rejects(called(() => new Output({ [member]: value })), { kind: 'internal', message });
  }
});

test('a part has the type that the contract has for its block', async () => {
  const wit = await readFile(new URL('../../../wit/types/0.1.0/types.wit', import.meta.url), 'utf8');
  const [, cases] = /variant content-block \{(.*?)\n    \}/s.exec(wit);
  const types = [...cases.matchAll(/^ +([a-z-]+)\(/gm)].map(([, name]) => name);
  assert.deepEqual([...new Set(PARTS.map(({ type }) => type))], types);
});

test('an error with members that the contract cannot have is refused where it is made', () => {
  const cases = [
    [{ retryAfterMs: 1500.5 }, 'retryAfterMs must be a whole number of 0 or more, not 1500.5'],
    [{ retryAfterMs: -1 }, 'retryAfterMs must be a whole number of 0 or more, not -1'],
    [{ retryAfterMs: NaN }, 'retryAfterMs must be a whole number of 0 or more, not NaN'],
    [{ retryAfterMs: '5' }, 'retryAfterMs must be a whole number of 0 or more, not 5'],
    [{ details: { n: 1n } }, 'details must be a JSON value: Do not know how to serialize a BigInt'],
    [{ details: () => {} }, 'details must be a JSON value, not a function'],
    [{ meta: [1] }, 'meta must be an object'],
    [{ meta: { n: 1n } }, 'meta must be a JSON value: Do not know how to serialize a BigInt'],
    [{ extra: [1] }, 'extra must be an object'],
    [{ extra: { n: 1n } }, 'extra must be a JSON value: Do not know how to serialize a BigInt'],
    [{ code: 7 }, 'code must be a string, not 7'],
    [{ content: 'text' }, 'content must be an array of parts and strings'],
    [{ content: [{ text: 'a' }] }, 'content must be an array of parts and strings'],
    [{ content: [null] }, 'content must be an array of parts and strings'],
  ];
  for (const [more, message] of cases) assert.throws(() => new ToolError('internal', 'x', more), { name: 'TypeError', message });
  const shot = errorFromHost(errorToHost(new ToolError('internal', 'x', { content: ['shot'] })));
  assert.equal(shot.content[0].text, 'shot');
});

test('members of an error that are null are absent, except details', () => {
  const given = new ToolError('internal', 'x', { code: null, retryAfterMs: null, content: null, details: null, meta: null, extra: null });
  const { code, retryAfterMs, content, details, meta, extra } = errorToHost(given);
  assert.deepEqual([code, retryAfterMs, content, details, meta, extra], [undefined, undefined, [], 'null', undefined, undefined]);
  assert.equal(errorFromHost(errorToHost(given)).details, null);
});

test('the longest wait of another tool arrives as a number', () => {
  const given = { ...errorToHost(new ToolError('rate-limited', 'wait')), retryAfterMs: 2n ** 64n - 1n };
  const error = errorFromHost(given);
  assert.equal(error.retryAfterMs, Number.MAX_SAFE_INTEGER);
  assert.equal(errorToHost(error).retryAfterMs, BigInt(Number.MAX_SAFE_INTEGER));
});

test('the size of a link of another tool arrives as a number that can be returned', () => {
  const link = { uri: 'x', name: 'y', size: 2n ** 64n - 1n };
  const part = contentFromHost({ block: { tag: 'resource-link', val: link } });
  assert.equal(part.size, Number.MAX_SAFE_INTEGER);
  assert.equal(contentToHost(part).block.val.size, BigInt(Number.MAX_SAFE_INTEGER));
});

test('an error that cannot be converted arrives with its kind and message', async () => {
  const changes = [
    (error) => (error.retryAfterMs = 0.5),
    (error) => (error.details = { n: 1n }),
    (error) => (error.meta = 1n),
    (error) => (error.extra = 'ttl'),
    (error) => (error.content = [{ type: 'chart' }]),
    (error) => (error.content = undefined),
    (error) => (error.content = [sdk.resourceLink('a:b', 'b', { size: -1 })]),
    (error) => (error.content = [sdk.image('not bytes', 'image/png')]),
    (error) => (error.content = [sdk.embeddedResource('a:b', 5)]),
    (error) => (error.code = 7),
  ];
  for (const change of changes) {
    const host = new Host();
    const run = () => {
      const error = new ToolError('conflict', 'changed meanwhile', { code: 'c' });
      change(error);
      throw error;
    };
    await assert.rejects(called(run, { host }), { kind: 'conflict', message: 'changed meanwhile', code: undefined });
    assert.match(host.logs[0].message, /only its kind and message/);
  }
});

test('an exception that cannot be described is an internal error', async () => {
  const broken = {
    toString() {
      throw new Error('no text');
    },
  };
  const kindless = Object.assign(new ToolError('denied', 'no'), { kind: 'missing' });
  const refusal = Object.assign(new sdk.HostError('KvError', 'other', 'the store failed', 'other'), { message: 5 });
  for (const thrown of [broken, Object.create(null), Symbol('s'), undefined, null, 1n]) {
    await assert.rejects(called(() => Promise.reject(thrown)), { name: 'ToolError', kind: 'internal' });
  }
  await assert.rejects(called(() => Promise.reject(kindless)), { kind: 'internal', message: 'no' });
  await assert.rejects(called(() => Promise.reject(refusal)), { kind: 'other', message: 'the store failed' });
});

test('a log that fails does not hide the error', async () => {
  const host = new Host();
  host.write = () => {
    throw new Error('no log');
  };
  await assert.rejects(called(() => undefined.nothing, { host }), { kind: 'internal', message: /^TypeError: / });
});

test('an accident is internal and its stack is logged', async () => {
  const host = new Host();
  await assert.rejects(called(() => undefined.nothing, { host }), { kind: 'internal', message: /^TypeError: / });
  assert.match(host.logs[0].fields.error, /plugin\.test\.js/);
});

test('arguments that are no object, unknown tools and unknown arguments are refused', async () => {
  const exported = plugin(define(() => 'ok', { input: s.object({}) }));
  const cases = [['it', '[1]', 'invalid-input'], ['it', '{', 'invalid-input'], ['it', '{"a":1}', 'invalid-input'], ['toString', '{}', 'not-found']];
  for (const [name, args, kind] of cases) await assert.rejects(exported.invoke(name, args), { kind });
});

test('a tool that no caller could use is refused where it is defined', () => {
  const cases = [
    [{ name: 'a b' }, /"a b" is not a valid name of a tool/],
    [{ description: '' }, /tool it: it has no description/],
    [{ run: 1 }, /tool it: run is no function/],
    [{ inputs: {} }, /tool it: unknown member inputs; known are name/],
    [{ annotations: { readonly: true } }, /tool it: unknown annotation readonly; known are readOnly, .*, extra$/],
    [{ annotations: { extra: 'staff' } }, /tool it: annotations\.extra must be an object/],
    [{ meta: [1] }, /tool it: meta must be an object/],
    [{ extra: 1 }, /tool it: extra must be an object/],
    [{ input: s.string() }, /tool it: input is no schema of an object/],
    [{ output: { type: 'array' } }, /tool it: output is no schema of an object/],
  ];
  for (const [more, message] of cases) assert.throws(() => define(() => {}, more), message);
  assert.throws(() => plugin(define(() => {}), define(() => {})), /two tools with the name it/);
  assert.throws(() => plugin({ name: 'it' }), /plugin takes tools, each made by tool/);
  assert.throws(() => new ToolError('missing', 'm'), /there is no kind of failure 'missing'/);
});

test('a descriptor has every member of the contract', () => {
  const input = { type: 'object', properties: {} };
  const annotations = { readOnly: true, extra: { audience: 'staff' } };
  const [descriptor] = plugin(define(() => {}, { title: 'It', input, output: s.object({}), annotations, extra: { icons: [] } })).describe();
  assert.deepEqual(descriptor, {
    name: 'it', title: 'It', description: 'Does it.', inputSchema: JSON.stringify(input),
    outputSchema: '{"type":"object","properties":{},"required":[],"additionalProperties":false}',
    annotations: { readOnly: true, destructive: undefined, idempotent: undefined, openWorld: undefined, extra: '{"audience":"staff"}' },
    meta: undefined, extra: '{"icons":[]}',
  });
});

test('refusals of the host keep their kind', async () => {
  const host = new Host({
    stores: ['notes'],
    http: ({ url }) => {
      throw new Refusal(url.includes('b.example') ? 'limit-reached' : 'denied', 'no', { requestSent: true });
    },
    tools: {
      slot: () => {
        throw new ToolError('auth-required', 'sign in', { code: 'c', retryAfterMs: 9, content: ['shot'] });
      },
    },
  });
  const cases = [
    [() => kv.open('unknown'), 'internal', 'kv_no_such_store'],
    [() => kv.open('notes').set('k', 'v', { ifVersion: 7 }), 'conflict', 'kv_conflict'],
    [() => http.get('https://a.example/'), 'denied', 'http_denied'],
    [() => http.get('https://b.example/'), 'limit-reached', 'http_limit_reached'],
    [() => reveal('token'), 'denied', 'secret_denied'],
    [() => tools.call('slot'), 'auth-required', 'c'],
    [() => tools.call('unknown'), 'not-found', 'airlock.not_found'],
  ];
  for (const [run, kind, code] of cases) await assert.rejects(called(run, { host }), { kind, code });
  assert.deepEqual(host.logs, []);
  await assert.rejects(called(() => http.get('https://a.example/'), { host }), { details: { request_sent: true } });
  const caught = await called(() => tools.call('slot'), { host }).catch((error) => error);
  assert.deepEqual([caught.retryAfterMs, caught.content[0].text], [9, 'shot']);
  assert.throws(() => host.run(() => http.get('https://a.example/')), { name: 'HttpError', kind: 'denied', requestSent: true });
});

test('the running call reports, sends and logs', async () => {
  const host = new Host({ remainingMs: 50 });
  const run = (args, context) => {
    context.progress(1, 2, 'half');
    context.emit('early');
    log.warn('slow', { rows: 3, nested: { a: 1 } });
    return `${context.id} ${context.remainingMs}`;
  };
  assert.equal((await called(run, { host })).content.at(-1).text, 'test 50');
  assert.deepEqual(host.progress, [{ done: 1, total: 2, message: 'half' }]);
  assert.equal(host.parts[0].text, 'early');
  assert.deepEqual(host.logs, [{ level: 'warn', message: 'slow', fields: { rows: '3', nested: '{"a":1}' } }]);
});

test('the content of a result or an error begins with the parts that were sent before it', async () => {
  const host = new Host();
  const emit = (args, context) => context.emit('early');
  const texts = ({ content }) => content.map(({ text }) => text);
  const run = (args, context) => (emit(args, context), 'late');
  assert.deepEqual(texts(await called(run, { host })), ['early', 'late']);
  const fail = (args, context) => {
    emit(args, context);
    throw new ToolError('conflict', 'x', { content: ['late'] });
  };
  assert.deepEqual(texts(await called(fail, { host }).catch((error) => error)), ['early', 'late']);
  assert.equal(host.parts.length, 2);
});

test('a configuration is read by member and by schema', () => {
  const host = new Host({ config: { rows: 3 } });
  const schema = s.object({ rows: s.integer(), unit: s.string().default('C') });
  assert.deepEqual(host.run(() => [config.get('rows'), config.get('x', 1), config.getAll()]), [3, 1, { rows: 3 }]);
  assert.deepEqual(host.run(() => config.load(schema)), { rows: 3, unit: 'C' });
  const wrong = () => new Host({ config: { rows: 'x' } }).run(() => config.load(schema));
  assert.throws(wrong, { kind: 'internal', message: /configuration cannot be used: argument `rows` must be an integer/ });
});

test('a member of the configuration that is null is null, and only an absent one has the default', () => {
  const host = new Host({ config: { unit: null } });
  assert.deepEqual(host.run(() => [config.get('unit', 'C'), config.get('unit'), config.get('x', 'C'), config.get('x')]), [null, null, 'C', undefined]);
});

test('a store compares and sets, and versions are numbers', () => {
  new Host({ stores: ['notes'] }).run(() => {
    const store = kv.open('notes');
    const version = store.set('a', '1', { ifVersion: 0 });
    assert.equal(typeof version, 'number');
    assert.deepEqual([store.get('a').text(), store.get('a').version, store.get('b')], ['1', version, undefined]);
    assert.deepEqual([1, 2].map(() => store.updateJson('n', (n) => (n ?? 0) + 1)), [1, 2]);
    assert.deepEqual(store.getMany(['n', 'x']).map((entry) => entry?.json()), [2, undefined]);
    assert.throws(() => store.delete('a', { ifVersion: version + 9 }), { name: 'KvError', kind: 'conflict' });
    assert.throws(() => store.set('a', '', { ifVersion: 1.5 }), RangeError);
    assert.deepEqual([store.delete('a', { ifVersion: version }), store.delete('a')], [true, false]);
  });
});

test('an update runs again if another call wrote in between, and its own conflicts are not caught', () => {
  new Host({ stores: ['notes'] }).run(() => {
    const store = kv.open('notes');
    let runs = 0;
    store.update('k', () => {
      if (++runs < 3) store.set('k', 'other');
      return 'mine';
    });
    assert.deepEqual([runs, store.get('k').text()], [3, 'mine']);
    const inner = () => store.update('k', () => store.set('k', '', { ifVersion: 999 }));
    assert.throws(inner, { kind: 'conflict' });
  });
});

test('keys are read page by page', () => {
  new Host({ stores: ['notes'] }).run(() => {
    const store = kv.open('notes');
    for (let number = 0; number < 2500; number++) store.set(`n/${String(number).padStart(4, '0')}`, '');
    store.set('o', '');
    const keys = [...store.keys('n/')];
    assert.deepEqual([keys.length, keys.at(-1)], [2500, 'n/2499']);
  });
});

test('pages of keys and of tools that are short or empty do not end a list', () => {
  const host = new Host();
  const pages = { undefined: [['z'], 'p'], p: [[], 'q'], q: [['a-b', 'a-c'], 'r'], r: [[], undefined] };
  host.kvOpen = () => ({ keys: (prefix, cursor) => ({ keys: pages[cursor][0], next: pages[cursor][1] }) });
  host.toolsList = (cursor) => ({ items: pages[cursor][0].map((name) => ({ name, description: '' })), next: pages[cursor][1] });
  const both = host.run(() => [[...kv.open('notes').keys()], [...tools.list()].map(({ name }) => name)]);
  assert.deepEqual(both, [['z', 'a-b', 'a-c'], ['z', 'a-b', 'a-c']]);
});

test('reading more entries than one host call returns fails, and the message names the bounds', () => {
  new Host({ stores: ['notes'] }).run(() => {
    const store = kv.open('notes');
    const names = (count) => Array.from({ length: count }, (_, number) => `n/${number}`);
    assert.equal(store.getMany(names(1000)).length, 1000);
    const refused = { name: 'KvError', kind: 'too-large', message: /1 MiB.*the store's quota; one read has at most 1,000 keys, and values of limited size$/ };
    assert.throws(() => store.getMany(names(1001)), refused);
    for (const name of names(9)) store.set(name, new Uint8Array(1 << 20));
    assert.equal(store.getMany(names(8)).length, 8);
    assert.throws(() => store.getMany(names(9)), refused);
  });
});

test('an entry that is larger than the quota is too large, and one that does not fit exceeds it', () => {
  new Host({ stores: { notes: 70 } }).run(() => {
    const store = kv.open('notes');
    assert.throws(() => store.set('k', '123456'), { name: 'KvError', kind: 'too-large' });
    store.set('k', '12345');
    store.set('k', '54321');
    assert.throws(() => store.set('l', ''), { kind: 'quota-exceeded' });
    store.delete('k');
    store.set('l', '');
  });
});

test('a request is sent as the contract has it', () => {
  const host = new Host({
    http: ({ method }) => (method === 'GET' ? { status: 429, body: 'slow\ndown', headers: { 'Retry-After': '7' } } : { body: '{"n":1}' }),
  });
  const options = { query: { city: 'São Paulo' }, json: { a: [1] }, credentials: ['token'], timeoutMs: 5, redirects: 'manual' };
  assert.deepEqual(host.run(() => http.post('https://a.example/b?c=1#d', options)).json(), { n: 1 });
  const [{ url, body, headers, credentials, timeoutMs, redirects }] = host.requests;
  assert.equal(url, 'https://a.example/b?c=1&city=S%C3%A3o%20Paulo#d');
  assert.deepEqual([String.fromCharCode(...body), headers[0][0]], ['{"a":[1]}', 'content-type']);
  assert.deepEqual([credentials, timeoutMs, redirects], [['token'], 5, 'manual']);
  const limited = { kind: 'rate-limited', code: 'http_429', retryAfterMs: 7000, message: 'the server responded with 429: slowdown' };
  assert.throws(() => host.run(() => http.get('https://a.example/').ok()), limited);
  assert.equal(host.run(() => http.get('https://a.example/').finalUrl), 'https://a.example/');
});

test('a status that is no success has the kind that fits', () => {
  const kinds = { 400: 'invalid-input', 401: 'auth-required', 409: 'conflict', 410: 'not-found', 500: 'unavailable' };
  for (const [status, kind] of Object.entries(kinds)) {
    const host = new Host({ http: () => ({ status: Number(status), body: 'taken' }) });
    const expected = { kind, code: `http_${status}`, message: `the server responded with ${status}: taken` };
    assert.throws(() => host.run(() => http.get('https://a.example/').ok()), expected);
  }
});

test('other tools are called one by one and together', () => {
  const double = ({ n }) => {
    if (n < 0) throw new ToolError('invalid-input', 'negative');
    return { n: n * 2 };
  };
  new Host({ tools: { double } }).run(() => {
    assert.deepEqual(tools.call('double', { n: 2 }).data(), { n: 4 });
    const [one, two] = tools.callBatch([{ name: 'double', arguments: { n: 1 } }, { name: 'double', arguments: { n: -1 } }]);
    assert.deepEqual([one.data(), two.kind], [{ n: 2 }, 'invalid-input']);
    assert.deepEqual([...tools.list()].map(({ name }) => name), ['double']);
    assert.deepEqual(tools.describe('double').inputSchema, { type: 'object' });
  });
});

test('slots are listed before the tools by full name, and a descriptor has its annotations in full', () => {
  const host = new Host({ tools: { 'a-b': () => 1, z: () => 1, 'a-a': () => 1, y: () => 1 } });
  assert.deepEqual(host.run(() => [...tools.list()].map(({ name }) => name)), ['y', 'z', 'a-a', 'a-b']);
  assert.deepEqual([host.toolsList('z', 1).items[0].name, host.toolsList('z', 1).next], ['a-a', 'a-a']);
  const describe = host.toolsDescribe.bind(host);
  host.toolsDescribe = (name) => ({ ...describe(name), annotations: { readOnly: true, extra: '{"audience":"staff"}' } });
  assert.deepEqual(host.run(() => tools.describe('z').annotations), { readOnly: true, extra: { audience: 'staff' } });
});

test('a secret exists or not and is revealed', () => {
  const host = new Host({ secrets: { token: 's' } });
  assert.deepEqual(host.run(() => [secrets.exists('token'), secrets.exists('x'), String.fromCharCode(...reveal('token'))]), [true, false, 's']);
});

test('without a host an interface says what to use', () => {
  assert.throws(() => kv.open('notes'), /run it by Host of testing\.js/);
});

test('the first tool has the schema of the configuration, which admits no other members', () => {
  const settings = s.object({ rows: s.integer().default(5) });
  const [first, second] = plugin(define(() => 'a', { meta: { m: 1 } }), define(() => 'b', { name: 'other' }), { config: settings }).describe();
  const { m, ...more } = JSON.parse(first.meta);
  assert.deepEqual([m, more['airlock/config_schema'].properties.rows.type, second.meta], [1, 'integer', undefined]);
  assert.equal(more['airlock/config_schema'].additionalProperties, false);
  assert.throws(() => plugin(define(() => 'a'), { config: s.string() }), { message: /config is no schema of an object/ });
});

test('what a test declares must be requested by plugin.toml', async () => {
  const manifest = await mkdtemp(`${tmpdir()}/airlock-plugin-`);
  const text = `[[tool]] # a comment with [request.kv.none]
name = "it"
[request.kv.seen]
max_bytes = "1MiB" # a size
[request]
kv.dotted = { max_bytes = "1MiB", reason = "has a # in it" }
[request.http.api]
url = "https://*.example.com"
[request.slot.search]
[request.tools]
call = ["web-find"]
`;
  await writeFile(`${manifest}/plugin.toml`, text);
  const respond = () => ({ body: 'ok' });
  const tools = { search: () => '', 'web-find': () => '' };
  const host = new Host({ stores: ['seen', 'dotted'], http: respond, tools, manifest });
  const refused = [[{ stores: ['none'] }, 'request.kv.none'], [{ secrets: { token: 'x' } }, 'request.secret.token'], [{ config: { a: 1 } }, 'config'],
    [{ tools: { 'web-other': () => '' } }, 'request.tools'], [{ tools: { other: () => '' } }, 'request.slot.other']];
  for (const [declared, table] of refused) {
    assert.throws(() => new Host({ ...declared, manifest }), (error) => error.message.includes(`write [${table}]`));
  }
  assert.equal(await host.run(async () => http.get('https://a.example.com/x').text()), 'ok');
  assert.throws(() => host.run(() => http.get('https://example.org/')), { message: /has no \[request.http.NAME\] for https:..example.org/ });
  assert.doesNotThrow(() => new Host({ stores: ['none'], manifest: null }));
});
