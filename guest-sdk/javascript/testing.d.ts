import type { Output, Part } from './content.js';
import type { HttpError } from './http.js';
import type { Plugin } from './plugin.js';

/** A request that a tool sent. */
export interface Sent {
  method: string;
  url: string;
  headers: [name: string, value: Uint8Array][];
  body?: Uint8Array;
  timeoutMs?: number;
  maxResponseBytes?: number;
  credentials: string[];
  redirects: 'follow' | 'manual';
}

/** The response to a request. */
export interface Reply {
  status?: number;
  body?: string | Uint8Array;
  headers?: Record<string, string>;
}

/** The failure of a request: thrown by the function `http` of a host. */
export declare class Refusal extends Error {
  constructor(kind: HttpError['kind'], message?: string, more?: { requestSent?: boolean });
}

/** A host in memory. Refuses everything that is not declared, as the gateway does. */
export declare class Host {
  constructor(grants?: {
    /** The configuration. */
    config?: Record<string, unknown>;
    /**
     * Names of the granted stores, or their quotas in bytes by name. An entry counts with its key, its value and 64 bytes.
     */
    stores?: string[] | Record<string, number>;
    /** The granted secrets. */
    secrets?: Record<string, string | Uint8Array>;
    /** Responds to a request. */
    http?: (request: Sent) => Reply;
    /**
     * Other tools by name. They return what a tool returns, and may throw `ToolError`; with a code such as `airlock.deadline`, it is
     * an error of the host.
     */
    tools?: Record<string, (args: any) => unknown>;
    /** Time left of the call. */
    remainingMs?: number;
    /** Directory of the `plugin.toml` that must request what is declared here, the working directory by default; null for no comparison. */
    manifest?: string | null;
  });
  /** Lines of the log. */
  readonly logs: { level: string; message: string; fields: Record<string, string> }[];
  readonly progress: { done: number; total?: number; message?: string }[];
  /** Parts that were sent before the result. */
  readonly parts: Part[];
  readonly requests: Sent[];
  /**
   * Calls a tool of a plugin: what its `plugin.js` exports as `tools`. Fails with `ToolError`. The content of the result, or of the
   * error, begins with the parts that the tool sent before it.
   */
  call(plugin: Plugin, name: string, args?: object): Promise<Output<any>>;
  /** Runs any function that uses the host. */
  run<T>(work: () => T): T;
}
