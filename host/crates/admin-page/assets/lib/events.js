// The stream of events of a page, which is resumed after its last event.
import { ApiError, credential, failure, reached, session } from './api.js';

/** Time without a byte after which a stream is lost; the gateway sends a comment each 15 seconds. */
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;
/** Pause after a refusal, such as too many streams. */
const REFUSED_PAUSE_MS = 30_000;
/** Longest event that is kept. */
const MOST_CHARACTERS = 1_000_000;

/** Reads server-sent events from pieces of text. */
export class EventReader {
  #rest = '';
  #event = { type: 'message', data: [] };
  /** Identifier of the last whole event. */
  lastId = '';
  #id;

  /** Returns the events that end in this piece: `{ type, data }`. Fails if one is too long. */
  read(piece) {
    const lines = (this.#rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    if (this.#rest.length > MOST_CHARACTERS) throw new Error('an event is too long');
    return lines.map((line) => this.#line(line)).filter(Boolean);
  }

  #line(line) {
    if (line === '') return this.#end();
    const at = line.indexOf(':');
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? '' : line.slice(at + 1).replace(/^ /, '');
    if (name === 'data') this.#event.data.push(value);
    if (name === 'event') this.#event.type = value;
    if (name === 'id' && !value.includes('\0')) this.#id = value;
    return undefined;
  }

  #end() {
    const { type, data } = this.#event;
    this.#event = { type: 'message', data: [] };
    if (this.#id !== undefined) this.lastId = this.#id;
    return data.length === 0 ? undefined : { type, data: JSON.parse(data.join('\n')) };
  }
}

/**
 * Follows `topics` until the function that it returns is called. `onEvent` gets each event, and `resync` after a gap; `onState` gets
 * `connecting`, `live`, `reconnecting` or `off` with a message.
 */
export function follow(topics, { onEvent, onState }) {
  const stream = new Stream(topics, onEvent, onState);
  stream.run();
  return () => stream.stop();
}

class Stream {
  #stopped = new AbortController();
  #reader = new EventReader();
  #failures = 0;

  constructor(topics, onEvent, onState) {
    this.path = `/api/events?topics=${topics.join(',')}`;
    Object.assign(this, { onEvent, onState });
  }

  stop() {
    this.#stopped.abort();
  }

  async run() {
    this.onState('connecting');
    while (!this.#stopped.signal.aborted) {
      try {
        // A stream that has reached its time is opened again at once, without a word.
        if ((await this.#once()) === 'time') continue;
        this.#lost();
      } catch (error) {
        if (this.#stopped.signal.aborted) return;
        if (error.status === 401 && (await session.renew?.())) continue;
        this.#lost(error);
      }
      await pause(this.#pauseMs(), this.#stopped.signal);
    }
  }

  #lost(error) {
    this.#failures += 1;
    this.isRefused = error instanceof ApiError && error.status >= 400 && error.status < 500;
    if (this.isRefused) this.onState('off', error.message);
    else this.onState('reconnecting');
  }

  #pauseMs() {
    if (this.isRefused) return REFUSED_PAUSE_MS;
    const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#failures - 1));
    return longest / 2 + (Math.random() * longest) / 2;
  }

  /** Reads one response to its end. Returns the reason that the gateway has given for the end, if it has. */
  async #once() {
    const attempt = new AbortController();
    const signal = AbortSignal.any([attempt.signal, this.#stopped.signal]);
    const lastId = this.#reader.lastId;
    const headers = { accept: 'text/event-stream', ...credential('GET'), ...(lastId && { 'last-event-id': lastId }) };
    let silence = setTimeout(() => attempt.abort(), SILENCE_MS);
    try {
      const response = await reached(this.path, { headers, signal, cache: 'no-store' });
      if (!response.ok) throw failure(response, await response.text());
      this.#reader = Object.assign(new EventReader(), { lastId });
      const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let reason;
      for (let piece = await pieces.read(); !piece.done; piece = await pieces.read()) {
        clearTimeout(silence);
        silence = setTimeout(() => attempt.abort(), SILENCE_MS);
        for (const event of this.#reader.read(piece.value)) reason = this.#take(event, lastId !== '') ?? reason;
      }
      if (reason === 'revoked') throw new ApiError(401, 'operator_unknown', 'The login has ended.');
      return reason;
    } finally {
      clearTimeout(silence);
      attempt.abort();
    }
  }

  #take({ type, data }, isAgain) {
    if (type === 'end') return data.reason;
    if (type !== 'open') {
      this.onEvent({ type, data });
      return undefined;
    }
    this.#failures = 0;
    this.onState('live');
    // With an identifier, the gateway says itself whether events were lost.
    if (!isAgain && this.hasOpened) this.onEvent({ type: 'resync', data: {} });
    this.hasOpened = true;
    return undefined;
  }
}

function pause(time, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, time);
    signal.addEventListener('abort', resolve);
  });
}
