import type { Part } from './content.js';

/** The running call. `new Context()` belongs to no call, for tests: it has no time limit and drops progress and parts. */
export declare class Context {
  constructor();
  /** The host's identifier of this call, for correlation. */
  get id(): string;
  /** Wall-clock time left before the host ends the call, in milliseconds; undefined if it is not limited. */
  get remainingMs(): number | undefined;
  /** Reports the progress of the call: `done` grows; `total` is its last value, if that is known. */
  progress(done: number, total?: number, message?: string): void;
  /**
   * Sends one part of the result before the rest; a string is a text. The content of the result, or of the error, begins with these
   * parts, so the tool does not return them again. They count towards the host's limit on the result.
   */
  emit(part: Part | string): void;
}
