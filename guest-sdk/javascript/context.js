import { text } from './content.js';
import { contentToHost, fromU64 } from './wire.js';

/** The running call. Without a handle it belongs to no call, for tests: it has no time limit and drops progress and parts. */
export class Context {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  /** The host's identifier of this call, for correlation. */
  get id() {
    return this.#handle?.id() ?? '';
  }

  /** Wall-clock time left before the host ends the call, in milliseconds; undefined if it is not limited. */
  get remainingMs() {
    return fromU64(this.#handle?.remainingMs());
  }

  /** Reports the progress of the call: `done` grows; `total` is its last value, if that is known. */
  progress(done, total, message) {
    this.#handle?.progress(done, total, message);
  }

  /**
   * Sends one part of the result before the rest. The content of the result, or of the error, begins with these parts, so the tool
   * does not return them again.
   */
  emit(part) {
    this.#handle?.emit(contentToHost(typeof part === 'string' ? text(part) : part));
  }
}
