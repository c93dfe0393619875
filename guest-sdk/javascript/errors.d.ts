import type { JsonObject, Part } from './content.js';

/**
 * Kind of a failure; `code` has the detail. `rate-limited` means too many requests in a period. `limit-reached` means that this call
 * has used all that it may use of something, such as tool calls or fuel; trying again in this call never helps.
 */
export type Kind =
  | 'invalid-input'
  | 'not-found'
  | 'conflict'
  | 'denied'
  | 'auth-required'
  | 'rate-limited'
  | 'limit-reached'
  | 'unavailable'
  | 'unsupported'
  | 'timeout'
  | 'cancelled'
  | 'too-large'
  | 'internal'
  | 'other';

/**
 * A failure, as the model reads it: `throw new ToolError('not-found', 'there is no city Olso', { code: 'unknown_city' })`. The
 * message names the problem and the remedy. It must not contain secrets; the host redacts and cuts it.
 *
 * The constructor fails with `TypeError` if a member cannot be sent. An error that a tool changes afterwards so that it cannot be
 * sent reaches the caller with its kind and message only.
 */
export declare class ToolError extends Error {
  constructor(
    kind: Kind,
    message: string,
    more?: {
      /**
       * Short, stable identifier for programs, such as `channel_not_found`. The prefix `airlock.` is that of the host's own errors;
       * the host removes it from the code of a tool.
       */
      code?: string;
      /** Time to wait before the next try, in milliseconds: a whole number of 0 or more. */
      retryAfterMs?: number;
      /** Further parts, such as a screenshot; a string is a text. */
      content?: (Part | string)[];
      /** Details as data, for scripts and the record of the call: any JSON value. `null` is a value; `undefined` is none. */
      details?: unknown;
      /** Vendor keys, forwarded as MCP `_meta`. */
      meta?: JsonObject;
      /** Other members of the MCP result that carries the error. */
      extra?: JsonObject;
    },
  );
  readonly kind: Kind;
  readonly code?: string;
  readonly retryAfterMs?: number;
  readonly content: (Part | string)[];
  readonly details?: unknown;
  readonly meta?: JsonObject;
  readonly extra?: JsonObject;
  /**
   * True if the host made the error of a called tool, and not the tool: its code begins with `airlock.`, such as `airlock.deadline`.
   * The contract lists these codes, and whether the tool has run.
   */
  get isFromHost(): boolean;
}

/** A refusal or a failure of the host, of one of its kinds. A tool that does not catch it fails with `toToolError()`. */
export declare class HostError<K extends string = string> extends Error {
  protected constructor();
  readonly kind: K;
  /** Returns the failure of a tool that cannot go on. */
  toToolError(): ToolError;
}
