'use strict';
/** Scripts that run: their messages, and the calls of tools that they wait for. */

const { AsyncLocalStorage, AsyncResource } = require('node:async_hooks');
const { types } = require('node:util');

const { KeptErrors, checkSignal, errorFrom, guarded, thrownParts } = require('./errors.js');
const { Tool } = require('./tools.js');
const { decode, encode } = require('./values.js');

/** Kinds of messages, see `src/caller.rs`. */
const CALL = 0;
const CANCEL = 1;
const PRINT = 2;
const END = 3;

/** The number of scripts in each other, up to the one whose tool runs. */
const nesting = new AsyncLocalStorage();

/** A script that runs. */
class ActiveRun {
  #place;
  #script;
  /** Settle the promise of the run; undefined when that is done. */
  #resolve;
  #reject;
  /** What tells tools that their results are no longer wanted, by call. */
  #controllers = new Map();
  #kept = new KeptErrors();
  #stop = () => {
    this.#script.cancel();
    this.#fail(this.#place.signal.reason);
  };

  /**
   * Waits for a run that the native module starts. `place` has its tools, what receives printed lines, and the signal that stops
   * it. `start` gets the function that receives its messages, and the number of scripts in each other around it.
   */
  static async wait(place, start) {
    checkSignal(place.signal, 'the signal of a run');
    place.signal?.throwIfAborted();
    return new Promise((resolve, reject) => new ActiveRun(place, resolve, reject).#start(start));
  }

  constructor(place, resolve, reject) {
    this.#place = place;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  #start(start) {
    // Messages come from another thread, and tools run in the context of the caller: its `AsyncLocalStorage`.
    const around = nesting.getStore() ?? 0;
    const receive = nesting.run(around + 1, () => AsyncResource.bind((...message) => this.#receive(...message), 'AirlockRun'));
    this.#script = guarded(() => start(receive, around));
    this.#place.signal?.addEventListener('abort', this.#stop, { once: true });
  }

  /** Takes a message. Does not fail: that would end the process. */
  #receive(kind, call, tool, text) {
    switch (kind) {
      case CALL:
        if (this.#isSettled) this.#script.fail(call, 'Error', 'the run has ended');
        else this.#call(call, this.#place.tools[tool], text);
        break;
      case CANCEL:
        this.#take(call)?.abort();
        break;
      case PRINT:
        this.#print(this.#script.printed());
        break;
      case END:
        this.#end(text);
    }
  }

  get #isSettled() {
    return this.#resolve === undefined;
  }

  async #call(call, tool, text) {
    const controller = new AbortController();
    this.#controllers.set(call, controller);
    try {
      const result = encode(await Tool.call(tool, decode(text), { signal: controller.signal }));
      if (this.#take(call)) this.#script.succeed(call, result);
    } catch (thrown) {
      if (!this.#take(call)) return;
      this.#kept.keep(call, thrown);
      this.#script.fail(call, ...thrownParts(thrown));
    }
  }

  /** Forgets a call, and returns its controller; undefined if it has ended or was cancelled. */
  #take(call) {
    const controller = this.#controllers.get(call);
    this.#controllers.delete(call);
    return controller;
  }

  #print(lines) {
    for (const line of lines) {
      if (this.#isSettled) return;
      try {
        const printed = this.#place.onPrint(line);
        // Nothing waits for it, and a rejection that nothing handles would end the process.
        if (types.isPromise(printed)) printed.catch((error) => this.#printFailed(error));
      } catch (error) {
        this.#printFailed(error);
      }
    }
  }

  /** Ends the run with an error of `onPrint`. Does nothing if it has ended. */
  #printFailed(error) {
    if (this.#isSettled) return;
    this.#script.cancel();
    this.#fail(error);
  }

  #end(failure) {
    if (failure !== '') {
      this.#fail(errorFrom(failure, this.#kept));
    } else if (!this.#isSettled) {
      this.#resolve(this.#script.take());
      this.#settle();
    }
  }

  #fail(error) {
    if (this.#isSettled) return;
    this.#reject(error);
    this.#settle(error);
  }

  /** Leaves the signal, and cancels the calls that are left. */
  #settle(reason) {
    this.#resolve = undefined;
    this.#reject = undefined;
    this.#place.signal?.removeEventListener('abort', this.#stop);
    const controllers = [...this.#controllers.values()];
    this.#controllers.clear();
    for (const controller of controllers) controller.abort(reason);
  }
}

module.exports = { ActiveRun };
