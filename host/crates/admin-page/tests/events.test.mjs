// The stream of events: how it is read, and how it goes on after it was lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';

globalThis.sessionStorage = { getItem: () => 'alop_a' };
const { EventReader, follow } = await import('../assets/lib/events.js');
const { session } = await import('../assets/lib/api.js');

const EVENT = (id, type, data) => `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
const OPEN = (id) => EVENT(id, 'open', { topics: [], resumed: false });

test('events are read from pieces that are cut anywhere', () => {
  const text = `: comment\n\nretry: 5\nid: 1\nevent: approvals\ndata: {"a":\ndata: 1}\n\r\nid: 2\r\ndata: {}\r\n\r\n`;
  const whole = new EventReader().read(text);
  assert.deepEqual(whole, [{ type: 'approvals', data: { a: 1 } }, { type: 'message', data: {} }]);
  for (let at = 0; at < text.length; at += 1) {
    const reader = new EventReader();
    assert.deepEqual([...reader.read(text.slice(0, at)), ...reader.read(text.slice(at))], whole, `cut at ${at}`);
    assert.equal(reader.lastId, '2');
  }
});

test('the identifier is that of the last event that is whole', () => {
  const reader = new EventReader();
  reader.read('id: 1\ndata: {}\n\nid: 2\ndata: {}\n');
  assert.equal(reader.lastId, '1');
  reader.read('\n');
  assert.equal(reader.lastId, '2');
});

test('an event without an end is refused', () => {
  assert.throws(() => new EventReader().read(`data: ${'x'.repeat(1_000_001)}`), /too long/);
});

/** Follows streams whose responses are given, until all were asked for. Returns the requests, events and states. */
async function played(responses) {
  const seen = { requests: [], events: [], states: [] };
  let stop;
  const isOver = new Promise((resolve) => {
    globalThis.fetch = async (path, { headers, signal }) => {
      if (responses.length === 0) {
        resolve();
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      }
      seen.requests.push(headers['last-event-id']);
      const next = responses.shift();
      if (next instanceof Error) throw next;
      return next;
    };
    stop = follow(['approvals'], { onEvent: (event) => seen.events.push(event), onState: (state) => seen.states.push(state) });
  });
  await isOver;
  stop();
  return seen;
}

test('a stream that has reached its time is resumed at once, after its last event', async () => {
  const first = OPEN('a.1') + EVENT('a.2', 'approvals', { id: 'x' }) + EVENT('a.2', 'end', { reason: 'time' });
  const second = EVENT('a.2', 'open', { resumed: true }) + EVENT('a.3', 'approvals', { id: 'y' }) + EVENT('a.3', 'end', { reason: 'time' });
  const seen = await played([new Response(first), new Response(second)]);
  assert.deepEqual(seen.requests, [undefined, 'a.2']);
  assert.deepEqual(seen.events.map((event) => event.data.id), ['x', 'y']);
  assert.ok(!seen.states.includes('reconnecting'));
});

test('a gap is told to the page', async () => {
  const first = OPEN('a.1') + EVENT('a.1', 'end', { reason: 'time' });
  const second = EVENT('b.9', 'open', { resumed: false }) + EVENT('b.9', 'resync', {}) + EVENT('b.9', 'end', { reason: 'time' });
  const seen = await played([new Response(first), new Response(second)]);
  assert.deepEqual(seen.events.map((event) => event.type), ['resync']);
});

test('a stream that is cut is opened again after a pause, and the page says so', async () => {
  const seen = await played([new Response(OPEN('a.1') + EVENT('a.4', 'approvals', {})), new Response(OPEN('a.4') + EVENT('a.4', 'end', { reason: 'time' }))]);
  assert.deepEqual(seen.states, ['connecting', 'live', 'reconnecting', 'live']);
  assert.deepEqual(seen.requests, [undefined, 'a.4']);
});

test('a stream whose login was revoked asks for a login, and goes on with it', async () => {
  let asked = 0;
  session.renew = async () => {
    asked += 1;
    return { isSame: true };
  };
  await played([new Response(OPEN('a.1') + EVENT('a.1', 'end', { reason: 'revoked' })), new Response(OPEN('a.1') + EVENT('a.1', 'end', { reason: 'time' }))]);
  assert.equal(asked, 1);
});
