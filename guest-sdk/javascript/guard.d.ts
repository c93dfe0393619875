import { Schema, s } from './schema.js';
import type { Infer } from './schema.js';

export { Schema, s };
export type { Infer };

/** A decision: `assert.deepEqual(verdict, deny('code', 'reason'))` compares two in tests. */
export declare class Verdict {
  private constructor();
  readonly type: 'allow' | 'rewrite' | 'deny' | 'ask';
  /** JSON text of a rewrite. */
  readonly json?: string;
  /** Code of a denial. */
  readonly code?: string;
  /** Reason of a denial, or of the question for an approval. */
  readonly reason?: string;
  /** The value that a rewrite has; undefined for another decision. */
  get value(): any;
}

/** Changes nothing. */
export declare function allow(): Verdict;
/**
 * Replaces the arguments, the outcome, the definition or the texts by a value of the same form. A rewrite of arguments must be
 * idempotent: a call that waits for an approval is decided about again. Numbers pass through those of JavaScript, which lose digits
 * of integers beyond 2^53.
 */
export declare function rewrite(value: unknown): Verdict;
/** Replaces them by a JSON text, in which all numbers keep their digits. */
export declare function rewriteText(json: string): Verdict;
/**
 * Denies the call, withholds its outcome, or denies the definition, the request or the response. `code` is a short stable identifier
 * of at most 64 bytes. The caller and the model read both; `reason` has at most 1 KiB.
 */
export declare function deny(code: string, reason: string): Verdict;
/** Asks for an approval, only before a call. The reason has at most 1 KiB. */
export declare function ask(reason: string): Verdict;

/** The effects of a tool, as its definition states them. That of a source that is not trusted may state anything. */
export interface Effects {
  /** True if the tool changes nothing. */
  readonly readOnly?: boolean;
  /** True if a change may destroy something. */
  readonly destructive?: boolean;
  /** True if a second call with the same arguments has no further effect. */
  readonly idempotent?: boolean;
  /** True if the tool reaches systems that are not known in advance. */
  readonly openWorld?: boolean;
  /** True if the operator trusts the source. */
  readonly trusted: boolean;
}

/** A call of a tool. */
export interface Call<Settings = any> {
  /** Full name of the tool: the client, `-`, and its name at the source. */
  readonly tool: string;
  /** The client that has the tool. */
  readonly client: string;
  /** The arguments, an object. Each reading parses them again. */
  readonly arguments: any;
  /** JSON text of the arguments, of at most 1 MiB. */
  readonly argumentsText: string;
  /** The effects of the tool. */
  readonly effects: Effects;
  /**
   * The maker of the call: `model`, `script`, `plugin`, `caller`, `program`, `operator` or `mcp_client`. Later gateways may have
   * further names.
   */
  readonly origin: string;
  /** Name of the virtual key of the request; undefined if it came without one. */
  readonly key?: string;
  /** The party that the call is accounted to, for people. */
  readonly tenant: string;
  /** The settings of the guard. */
  readonly settings: Settings;
  /** Further members of later gateways. */
  readonly extra?: Record<string, unknown>;
}

/** The end of a call, as the tool reports it. */
export interface Outcome {
  /** True for the tool's own error. */
  readonly isFailure: boolean;
  /**
   * MCP's `CallToolResult`, with `content`, `structuredContent` and `_meta`; of an error, `kind`, `code`, `message`, `content` and
   * `details`. Each reading parses it again.
   */
  readonly value: any;
  /** JSON text of the value. */
  readonly text: string;
}

/** A tool as its source lists it. */
export interface ListedTool<Settings = any> {
  /** Full name of the tool: the client, `-`, and its name at the source. */
  readonly tool: string;
  /** The client that has the tool. */
  readonly client: string;
  /** True if the operator trusts the source. */
  readonly trusted: boolean;
  /**
   * MCP's `Tool`, with `name`, `title`, `description`, `inputSchema`, `outputSchema`, `annotations` and further members. Each reading
   * parses it again.
   */
  readonly definition: any;
  /** JSON text of the definition. */
  readonly definitionText: string;
  /** The settings of the guard. */
  readonly settings: Settings;
  /** Further members of later gateways. */
  readonly extra?: Record<string, unknown>;
}

/** A text of a conversation. */
export interface ModelText {
  /**
   * The role of its message, as the request has it; else `call` for the arguments of a call, `tool` for a result, and `reasoning`.
   */
  role: string;
  /** The text. */
  text: string;
}

/** A request to a model, or its response. */
export interface ModelExchange<Settings = any> {
  /** Name of the model that is asked: the provider, `/`, and its name there. */
  readonly model: string;
  /** Name of the virtual key of the request; undefined if it came without one. */
  readonly key?: string;
  /** The party that the request is accounted to, for people. */
  readonly tenant: string;
  /** The texts, those that were added since the hook ran before. Each reading parses them again. */
  readonly texts: ModelText[];
  /** The settings of the guard. */
  readonly settings: Settings;
  /** Further members of later gateways. */
  readonly extra?: Record<string, unknown>;
  /** Replaces each text by what `change` returns for it, and allows the exchange if it returns undefined for all. */
  rewrite(change: (text: ModelText) => string | undefined): Verdict;
}

/** The hooks of a guard. A hook that is left out is never run. An exception refuses the call with `guard_failed`. */
export interface Definition<Settings> {
  /** Schema of the settings. Without one, any setting is an error. */
  settings?: Schema<Settings>;
  /** Decides about a call before it is made. */
  before?(call: Call<Settings>): Verdict;
  /** Decides about the outcome of a call that was made. */
  after?(call: Call<Settings>, outcome: Outcome): Verdict;
  /** Decides about a definition before the tool is offered. A rewrite changes descriptions and titles alone. */
  definition?(listed: ListedTool<Settings>): Verdict;
  /** Decides about a request before it is sent to the model. A rewrite has the same roles in the same order. */
  beforeModel?(exchange: ModelExchange<Settings>): Verdict;
  /** Decides about the response of a model. A rewrite has the same roles in the same order. */
  afterModel?(exchange: ModelExchange<Settings>): Verdict;
}

/** The interface `airlock:guard/hooks`, which a guard exports. */
export interface Hooks {
  checkSettings(settings: string): string[];
  beforeCall(call: object): object;
  afterCall(call: object, outcome: object): object;
  onDefinition(listed: object): object;
  beforeModel(exchange: object): object;
  afterModel(exchange: object): object;
}

/** Returns what `guard.js` must export as `hooks`: `export const hooks = guard({ … })`. Fails with `TypeError` if it is no guard. */
export declare function guard<Settings = {}>(definition: Definition<Settings>): Hooks;
