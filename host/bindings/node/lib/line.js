'use strict';
/** The messages between a gateway and the program: calls of functions in one direction, work in the other. */

const { AsyncLocalStorage, AsyncResource } = require('node:async_hooks');

const { ModelError, checkSignal, errorFrom, guarded, thrownParts } = require('./errors.js');
const { Tool } = require('./tools.js');
const { decode, encode } = require('./values.js');

/** Kinds of messages, see `src/program.rs`. */
const CALL = 0;
const CANCEL = 1;
const ASK = 2;
const STEP = 3;
const DONE = 4;
const FAILED = 5;

/** Number of the work that starts the gateway. */
const START = 0;

/** Depth of the call of a gateway whose function runs. */
const callDepths = new AsyncLocalStorage();

/** Returns the depth of the call of a gateway whose function runs; 0 if none does. */
function callDepth() {
  return callDepths.getStore() ?? 0;
}

/** What passes between one gateway and the program. */
class ProgramLine {
  #tools;
  #onModel;
  #native;
  /** Work that has not ended, by its number. */
  #works = new Map();
  #last = START;
  /** What tells functions that their results are no longer wanted, by call. */
  #controllers = new Map();
  /** Replies of the model that are read in pieces, by the call that has begun them. */
  #replies = new Map();

  constructor(tools, onModel) {
    this.#tools = tools;
    this.#onModel = onModel;
  }

  /** Starts the gateway, and waits for it. */
  async start(begin) {
    // Messages come from another thread, and functions run in the context of the caller: its `AsyncLocalStorage`.
    const receive = AsyncResource.bind((...message) => this.#receive(...message), 'AirlockGateway');
    return new Promise((resolve, reject) => {
      this.#native = guarded(() => begin(receive));
      this.#works.set(START, { resolve, reject, leave() {} });
    });
  }

  /** Begins work of the gateway, and waits for it. Returns its value, and the work as the native module has it. */
  async work(begin, signal) {
    checkSignal(signal, 'the signal of a request');
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const number = this.#next();
      const work = guarded(() => begin(this.#native, number));
      const stop = () => {
        this.#works.delete(number);
        work.cancel();
        reject(signal.reason);
      };
      signal?.addEventListener('abort', stop, { once: true });
      this.#works.set(number, { work, resolve, reject, leave: () => signal?.removeEventListener('abort', stop) });
    });
  }

  /** Rejects the work that is left. */
  end(error) {
    const works = [...this.#works.keys()];
    for (const number of works) this.#take(number)?.reject(error);
  }

  #next() {
    do this.#last = (this.#last + 1) % 2 ** 32;
    while (this.#last === START || this.#works.has(this.#last));
    return this.#last;
  }

  /** Takes a message. Does not fail: that would end the process. */
  #receive(kind, call, number, text, depth) {
    switch (kind) {
      case CALL:
        this.#run(call, depth, (context) => Tool.call(this.#tools[number], decode(text), context));
        break;
      case CANCEL:
        this.#cancel(call);
        break;
      case ASK:
        this.#run(call, depth, (context) => this.#ask(call, decode(text), context));
        break;
      case STEP:
        this.#run(call, depth, () => this.#step(text));
        break;
      case DONE: {
        const work = this.#take(number);
        work?.resolve({ value: decode(text), work: work.work });
        break;
      }
      case FAILED:
        this.#take(number)?.reject(errorFrom(text));
    }
  }

  /** Forgets work, and returns it; undefined if it was cancelled. */
  #take(number) {
    const work = this.#works.get(number);
    this.#works.delete(number);
    work?.leave();
    return work;
  }

  /** Runs a function, whose requests to the gateway are deeper than its own call. */
  async #run(call, depth, execute) {
    const controller = new AbortController();
    this.#controllers.set(call, controller);
    try {
      const result = encode(await callDepths.run(depth, execute, { signal: controller.signal }));
      if (this.#controllers.delete(call)) this.#native.succeed(call, result);
    } catch (thrown) {
      if (this.#controllers.delete(call)) this.#native.fail(call, ...thrownParts(thrown));
    }
  }

  #cancel(call) {
    this.#controllers.get(call)?.abort();
    this.#controllers.delete(call);
    const reply = this.#replies.get(call);
    this.#replies.delete(call);
    if (reply !== undefined) leave(reply);
  }

  /** Asks the model function. Returns the reply; null if it comes in pieces. */
  async #ask(call, request, context) {
    try {
      const reply = await this.#onModel(request, context);
      const pieces = iterator(reply);
      if (pieces === undefined) return checked(reply);
      // Unless it was cancelled meanwhile.
      if (this.#controllers.has(call)) this.#replies.set(call, pieces);
      else leave(pieces);
      return null;
    } catch (error) {
      return described(error);
    }
  }

  /** Returns the next piece in a list, which is empty after the last one. */
  async #step(asked) {
    try {
      const next = await this.#replies.get(asked)?.next();
      return next === undefined || next.done ? [] : [checked(next.value)];
    } catch (error) {
      return [described(error)];
    }
  }
}

/** Returns the iterator of a reply that comes in pieces; undefined for a whole one. */
function iterator(reply) {
  if (typeof reply !== 'object' || reply === null) return undefined;
  return reply[Symbol.asyncIterator]?.() ?? reply[Symbol.iterator]?.();
}

/** Ends an iterator whose further pieces nobody reads. What it throws concerns no one. */
async function leave(pieces) {
  try {
    await pieces.return?.();
  } catch {
    // The chat has ended.
  }
}

function checked(reply) {
  if (typeof reply === 'string' || (typeof reply === 'object' && reply !== null && !Array.isArray(reply))) return reply;
  throw new TypeError('the model function must return a text, a message, a chat completion or an iterable of pieces');
}

/** Returns a `ModelError` as a reply. Fails with any other error. */
function described(error) {
  if (!(error instanceof ModelError)) throw error;
  const { message, status, code, retryAfter } = error;
  return { error: { message, status, code, retry_after: retryAfter } };
}

module.exports = { ProgramLine, callDepth };
