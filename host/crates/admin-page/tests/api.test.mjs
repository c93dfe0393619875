// Requests: errors of the API, and logins that have ended.
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

const stored = new Map();
globalThis.sessionStorage = {
  getItem: (name) => stored.get(name) ?? null,
  setItem: (name, value) => stored.set(name, value),
  removeItem: (name) => stored.delete(name),
};
const { credential, get, getText, keepToken, noteInput, send, session } = await import('../assets/lib/api.js');

/** The requests that were sent, and the responses that are still to come. */
let sent;
let responses;

globalThis.fetch = async (path, options) => {
  sent.push({ path, ...options });
  const next = responses.shift();
  if (next instanceof Error) throw next;
  return next;
};

function reply(status, body, headers = {}) {
  return new Response(typeof body === 'string' ? body : JSON.stringify(body), { status, headers });
}

function refusal(status, code, message = 'no') {
  return reply(status, { error: { message, type: 'x', param: null, code } });
}

beforeEach(() => {
  sent = [];
  responses = [];
  stored.clear();
  Object.assign(session, { csrf: undefined, renew: undefined, reload: undefined });
});

test('an error has the status, the code and the message of the API', async () => {
  responses = [reply(429, { error: { message: 'later', code: 'too_many_streams', param: 'topics' } }, { 'retry-after': '7' })];
  await assert.rejects(get('/api/x'), { status: 429, code: 'too_many_streams', message: 'later', param: 'topics', retryAfter: 7 });
});

test('the text of a response is read by the reader that is given', async () => {
  responses = [reply(200, '{"id":9007199254740993}'), reply(200, ''), reply(200, '{"a":1}')];
  assert.equal(await send('POST', '/api/x', {}, { read: String }), '{"id":9007199254740993}');
  assert.equal(await send('POST', '/api/x', {}, { read: String }), 'null');
  assert.deepEqual(await send('POST', '/api/x', {}), { a: 1 });
});

test('a response that is not one of the gateway has its status', async () => {
  for (const body of ['<html>', '', '{"error":"text"}', '{"error":{"message":{},"code":3}}', 'null']) {
    responses = [reply(502, body)];
    await assert.rejects(get('/api/x'), { status: 502, code: 'unknown', message: /502/ }, body);
  }
});

test('a gateway that is not reached is an error of its own', async () => {
  responses = [new TypeError('failed to fetch')];
  await assert.rejects(get('/api/x'), { status: 0, code: 'unreachable' });
});

test('the token is sent, and a session sends its token against forgery with changes alone', async () => {
  responses = [reply(200, {}), reply(200, {}), reply(200, {})];
  keepToken('alop_a');
  session.csrf = 'c';
  await send('POST', '/api/x', { a: 1 });
  assert.equal(sent[0].headers.authorization, 'Bearer alop_a');
  assert.equal(sent[0].body, '{"a":1}');
  keepToken('');
  await send('DELETE', '/api/x');
  assert.equal(sent[1].headers['x-airlock-csrf'], 'c');
  assert.equal(sent[1].headers.authorization, undefined);
  await get('/api/x');
  assert.equal(sent[2].headers['x-airlock-csrf'], undefined);
});

test('what the page reads by itself, without an input for a minute, is no use of the session', async (context) => {
  let now = Date.now();
  context.mock.method(Date, 'now', () => now);
  noteInput();
  now += 60_000;
  responses = [reply(200, {}), reply(200, {}), reply(200, {})];
  await get('/v1/approvals?limit=1');
  now += 1;
  await get('/v1/approvals?limit=1');
  assert.deepEqual(credential('POST'), {}, 'a change is of a person');
  noteInput();
  await get('/v1/approvals?limit=1');
  assert.deepEqual(sent.map((request) => request.headers['x-airlock-background']), [undefined, 'true', undefined]);
});

test('after a login that was renewed, a request is sent once more with the new credential', async () => {
  responses = [refusal(401, 'operator_unknown'), reply(200, { fine: true })];
  session.renew = async () => {
    keepToken('alop_b');
    return { isSame: true };
  };
  assert.deepEqual(await send('POST', '/api/x', { a: 1 }), { fine: true });
  assert.equal(sent[1].headers.authorization, 'Bearer alop_b');
  assert.equal(sent[1].body, '{"a":1}');
});

test('a change is not sent again for another operator, and what is read is', async () => {
  session.renew = async () => ({ isSame: false });
  responses = [refusal(401, 'operator_unknown')];
  await assert.rejects(send('POST', '/api/x', {}), { code: 'operator_changed' });
  assert.equal(sent.length, 1);
  responses = [refusal(401, 'operator_unknown'), reply(200, '{"n":1.0}')];
  assert.equal(await getText('/api/x'), '{"n":1.0}');
});

test('a login that is declined, or that fails again, is an error', async () => {
  let asked = 0;
  session.renew = async () => {
    asked += 1;
    return undefined;
  };
  responses = [refusal(401, 'operator_unknown')];
  await assert.rejects(get('/api/x'), { status: 401 });
  session.renew = async () => ({ isSame: true });
  responses = [refusal(401, 'operator_unknown'), refusal(401, 'operator_unknown')];
  await assert.rejects(get('/api/x'), { status: 401 });
  assert.equal(asked, 1);
  assert.equal(sent.length, 3);
});

test('a trial of a token neither asks for a login nor sends the cookie', async () => {
  session.renew = async () => assert.fail('asked');
  responses = [refusal(401, 'operator_unknown')];
  await assert.rejects(get('/api/session', { ownToken: 'alop_c', isLogin: true }), { status: 401 });
  assert.equal(sent[0].headers.authorization, 'Bearer alop_c');
  assert.equal(sent[0].credentials, 'omit');
});

test('a session that has begun anew in another tab is read again', async () => {
  session.csrf = 'old';
  session.reload = async () => {
    session.csrf = 'new';
  };
  responses = [refusal(403, 'csrf_token_invalid'), reply(200, {})];
  await send('POST', '/api/x', {});
  assert.deepEqual(sent.map((request) => request.headers['x-airlock-csrf']), ['old', 'new']);
});

test('a change is not sent again if another operator has logged in in another tab', async () => {
  session.csrf = 'old';
  session.reload = async () => ({ isSame: false });
  responses = [refusal(403, 'csrf_token_invalid')];
  await assert.rejects(send('POST', '/api/x', {}), { code: 'operator_changed' });
  assert.equal(sent.length, 1);
});
