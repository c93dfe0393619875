import type { Output } from './content.js';
import type { ToolError } from './errors.js';
import type { Annotations } from './plugin.js';

/** A tool that may be called. */
export interface Summary {
  name: string;
  title?: string;
  description: string;
}

/** A tool in full. */
export interface Description extends Summary {
  inputSchema: Record<string, unknown>;
  outputSchema?: Record<string, unknown>;
  annotations: Annotations;
  meta?: Record<string, unknown>;
  extra?: Record<string, unknown>;
}

/** A call that is not made yet. */
export interface Call {
  /** Name of the slot, or the full name of the tool. */
  name: string;
  arguments?: object;
  /** A shorter time limit for this call, in milliseconds. */
  timeoutMs?: number;
}

/** Iterates over the tools that may be called. First the slots, then the tools by full name, both sorted by name. */
export declare function list(): Generator<Summary, void, undefined>;
/** Returns the descriptor of one tool. Its name is the one that was asked for. */
export declare function describe(name: string): Description;
/**
 * Calls one tool and waits for its result. Fails with the `ToolError` of the tool, or with one of the host, whose `isFromHost` is
 * true.
 */
export declare function call<T = any>(name: string, args?: object, options?: { timeoutMs?: number }): Output<T>;
/** Makes several calls concurrently. The results are in the order of the calls; failures are returned, not thrown. */
export declare function callBatch(calls: Call[]): (Output<any> | ToolError)[];
