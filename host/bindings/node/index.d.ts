/**
 * Runs unreviewed scripts, such as those of language models, in a sandbox within this process.
 *
 * `Gateway` is the whole gateway within this process.
 *
 * A script has no files, no network, no clock and no modules of this process: it has the tools and the inputs that it is given.
 */

/** A value as it comes from a script. An integer that a `number` would round is a `bigint`. */
export type ScriptValue = null | boolean | number | bigint | string | ScriptValue[] | { [name: string]: ScriptValue };

export type Language = 'python' | 'starlark';

/** JSON Schema, as an object. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** A schema of zod 4.2 or newer, or of another library with Standard Schema and Standard JSON Schema. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly validate: (value: unknown) => unknown;
    readonly jsonSchema: { readonly input: (options: { readonly target: string }) => unknown };
  };
}

/** Type of the values that a schema returns. */
export type OutputOf<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output'];

/** Limits of one run. A limit that is left out has its default. */
export interface Limits {
  /** Memory of the script, in MiB (2^20 bytes). 64 by default. */
  memoryMb?: number | undefined;
  /** Time in which the script computes. Waiting for tools is free. 5 by default. */
  cpuSeconds?: number | undefined;
  /** Time of the whole run, with that of its tools. 60 by default. */
  seconds?: number | undefined;
  /** Calls of tools. 1,000 by default. */
  calls?: number | undefined;
  /** Calls of tools at the same time. Further ones wait. 8 by default. */
  parallelCalls?: number | undefined;
  /** Scripts in each other, this one included: a tool of the first runs the second, and so on. 8 by default. */
  nesting?: number | undefined;
}

/** Context of one call of a tool. */
export interface CallContext {
  /** Is aborted when the result is no longer wanted: the run was stopped, or a limit has ended it. */
  readonly signal: AbortSignal;
}

/** A function that scripts may call, made by `tool`. */
export class Tool {
  private constructor();
  /** Name of the global function in scripts. */
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments, as one object. Its properties, in order, name arguments by position. */
  readonly inputSchema: JsonSchema;
  readonly needsApproval: boolean;
  readonly readOnly: boolean;
  // A tool takes the arguments of its own schema.
  readonly execute: (given: any, context: CallContext) => unknown;
}

interface ToolProperties {
  /** Name of the global function in scripts. */
  name: string;
  /** Description for a model. */
  description?: string | undefined;
  /** The script waits at each call until it is approved. False by default. */
  needsApproval?: boolean | undefined;
  /** The function changes nothing, so that it may be called again when a run is resumed. False by default. */
  readOnly?: boolean | undefined;
}

/**
 * Makes a function a tool. Throws `BadTool` if it cannot be one.
 *
 * `execute` gets the arguments as one object, of the types of the schema, and may be async. It is called on this thread, only with
 * arguments that fit. An error that it throws is a failure of the call, which the script can handle.
 */
export function tool<S extends StandardSchema>(
  definition: ToolProperties & {
    parameters: S;
    execute: (given: OutputOf<S>, context: CallContext) => unknown;
  },
): Tool;
export function tool<Given = any>(
  definition: ToolProperties & {
    /** JSON Schema of the arguments, as one object. Without it, the tool has none. */
    parameters?: JsonSchema | undefined;
    execute: (given: Given, context: CallContext) => unknown;
  },
): Tool;

export interface ScriptOptions {
  /** Tools that the script may call by their names. Their schemas are compiled once: pass the same objects again. */
  tools?: Iterable<Tool> | undefined;
  /** Global variables of the script. */
  inputs?: { readonly [name: string]: unknown } | ReadonlyMap<string, unknown> | undefined;
  /** `python` by default. */
  language?: Language | undefined;
  limits?: Limits | undefined;
  /**
   * Is called with each line that the script prints. An error that it throws ends the run. A promise that it returns is not waited
   * for: one that is rejected ends the run too, if it has not ended.
   */
  onPrint?: ((line: string) => void) | undefined;
  /** Stops the script. The promise is rejected with the reason of the signal. */
  signal?: AbortSignal | undefined;
}

/**
 * Runs a script in a fresh sandbox and returns its value: that of `result`, or else of its last expression; `null` if it has none.
 * The event loop goes on meanwhile.
 *
 * Rejects with `ScriptError` if the script failed, `ScriptSyntaxError` if it does not parse, `ToolFailed` if a tool failed in it,
 * `LimitExceeded` if a limit stopped it, `ApprovalNeeded` if it waits, `BadTool` if tools cannot be used, a `TypeError` for an input
 * without a JSON form, and `AirlockError` for another mistake in the options.
 */
export function runScript(code: string, options?: ScriptOptions): Promise<ScriptValue>;

/**
 * Runs a script like `runScript`, until it is finished or waits for an approval, and returns the run. A finished run has a journal:
 * `dump` returns it, and `replay` derives the value from it.
 */
export function startScript(code: string, options?: ScriptOptions): Promise<Run>;

/**
 * Loads a run that waits, from the bytes of `Run.dump`, also in another process. Throws `BadDump` if the bytes are damaged, or if a
 * tool that the run has called is missing or has another schema now.
 */
export function loadRun(
  bytes: Uint8Array,
  options?: { tools?: Iterable<Tool> | undefined; onPrint?: ((line: string) => void) | undefined },
): Run;

/**
 * Runs the script of a finished run again from its journal alone, and returns the run: no tool is called. Rejects with `BadDump` if the
 * bytes are damaged or the script no longer makes the calls that they hold.
 */
export function replay(bytes: Uint8Array, options?: { signal?: AbortSignal | undefined }): Promise<Run>;

/** A call that waits for a decision. */
export interface PendingCall {
  id: number;
  /** Name of the tool. */
  tool: string;
  arguments: { [name: string]: ScriptValue };
}

/** Use of resources by a finished run. */
export interface Usage {
  /** Work in units of the sandbox, the same in each run of the same script with the same results of its tools. */
  fuel: number;
  /** Bytes of memory of the script at its largest. */
  peakMemory: number;
  /** Calls of tools. */
  calls: number;
}

/** A run of a script that is finished, or that waits for decisions about calls of tools. */
export class Run {
  private constructor();
  /** Whether the run is finished. */
  get done(): boolean;
  /** The value of `result`, or else of the last expression; `null` if there is none. Throws `ApprovalNeeded` unless `done`. */
  get value(): ScriptValue;
  /** The text that the script has printed. */
  get output(): string;
  /** The calls that wait for a decision. */
  get pending(): PendingCall[];
  /** Use of resources; `undefined` if the run is not finished. */
  get usage(): Usage | undefined;
  /** Approves the only call that is pending. Throws `AirlockError` if several are: pass the ids of those to approve. */
  approve(): void;
  /** Approves the calls with these ids; an empty array approves none. Throws `AirlockError` for another id, and approves none then. */
  approve(ids: number | readonly number[]): void;
  /** Denies calls, all that are pending by default. The script receives the reason as the failure of the call. */
  deny(ids?: number | readonly number[], reason?: string): void;
  /**
   * Continues the run, and returns it: finished, or waiting again. This object is then used up.
   *
   * The script runs once more from its start. Calls that were answered are not made again.
   */
  resume(options?: { onPrint?: ((line: string) => void) | undefined; signal?: AbortSignal | undefined }): Promise<Run>;
  /**
   * Returns the run as bytes, for `loadRun` in this process or another one; those of a finished run are for `replay`.
   *
   * They hold the script, its inputs, the calls with their arguments and results, and a checksum, and are not encrypted. Throws
   * `AirlockError` for a finished run that was begun by `runScript`, which keeps no journal.
   */
  dump(): Uint8Array;
}

/** Sender of a request, and the tools that it selects. What is absent has the default of the gateway. */
export interface RequestOptions {
  /** Credential of the virtual key of the sender. Without one, it is a caller without a key. */
  key?: string | undefined;
  /** Clients that the request selects, by name; `*` stands for all. */
  clients?: readonly string[] | undefined;
  /** Tools that the request selects, as `client-tool`, or all of a client as `client-*`. */
  tools?: readonly string[] | undefined;
  /** Tools that the request takes away. */
  excludeTools?: readonly string[] | undefined;
  /** Language of scripts. */
  language?: Language | undefined;
  /** Treatment of a model's calls that need an approval. */
  approval?: 'return' | 'omit' | 'wait' | undefined;
  /** Bound on the time of each call and each chat, above 0. */
  seconds?: number | undefined;
  /** The program is the operator: it sees the clients of all owners, and decides about the calls of all callers. */
  operator?: boolean | undefined;
  /** Each call of the program is its own approval, as over HTTP: for a program whose user has asked for the call. */
  approving?: boolean | undefined;
  /** Cancels the request. The promise is rejected with the reason of the signal. */
  signal?: AbortSignal | undefined;
}

export interface ChatOptions extends RequestOptions {
  /** Name of the model, as `provider/model`; `own/NAME` for `onModel`. */
  model: string;
  /** Further members of the request, such as `temperature`, or `tools` that the program calls itself. */
  settings?: { readonly [name: string]: unknown } | undefined;
}

/** A message of a chat completion request. */
export type ChatMessage = { readonly role: string; readonly [member: string]: unknown };

/** A chat completion request, as the model function receives it, with the tools that the sender may see. */
export type ModelRequest = { readonly model: string; readonly messages: ChatMessage[]; readonly [member: string]: any };

/** A text, a message or a chat completion; of a streamed reply, a text, a delta or a chunk. */
export type ModelPiece = string | { readonly [member: string]: unknown };

/**
 * A model of the program. `signal` is aborted when the reply is no longer wanted. It may throw `ModelError`; another error stands for
 * the status 502.
 */
export type ModelFunction = (
  request: ModelRequest,
  context: CallContext,
) => ModelPiece | Iterable<ModelPiece> | AsyncIterable<ModelPiece> | Promise<ModelPiece | Iterable<ModelPiece> | AsyncIterable<ModelPiece>>;

export interface GatewayOptions {
  /** Functions of the program as tools: callers see `price` as `internal-price`. Those without `needsApproval` need none. */
  tools?: Iterable<Tool> | undefined;
  /** A model of the program, which requests name as `own/NAME`. */
  onModel?: ModelFunction | undefined;
  /** The functions are for scripts, and models see them behind the tools of code mode. False by default. */
  codeMode?: boolean | undefined;
}

/** A tool of the gateway, as a request sees it. */
export interface ToolInfo {
  name: string;
  /** Untrusted text of the source of the tool. */
  description: string;
  inputSchema: JsonSchema;
  outputSchema: JsonSchema | null;
  /** Name of the client that it belongs to; null for the gateway's own tools. */
  client: string | null;
  title: string | null;
  readOnly: boolean | null;
}

/** Result of a call. */
export class CallResult {
  private constructor();
  /** The result as text. */
  readonly text: string;
  /** The result as MCP has it: `content`, and `structuredContent` if there is data. */
  readonly result: { readonly [member: string]: any };
  /** The result as data; undefined if there is none. */
  get data(): any;
}

/** A chat completion. Its member `airlock` describes the calls that the gateway has made. */
export class ChatReply {
  private constructor();
  readonly [member: string]: any;
  /** The message of the model. Its `tool_calls` are those that the gateway has not made. */
  get message(): { readonly [member: string]: any };
  /** The text of the message. */
  get text(): string;
}

/** A chunk of a chat completion that is streamed. An event of a call is a chunk without text that has it as its member `airlock`. */
export type ChatChunk = { readonly [member: string]: any };

/** The chunks of a chat completion. The model runs only while the next one is waited for. Leaving a `for await` cancels the chat. */
export class ChatStream implements AsyncIterableIterator<ChatChunk> {
  private constructor();
  next(): Promise<IteratorResult<ChatChunk, undefined>>;
  return(): Promise<IteratorResult<ChatChunk, undefined>>;
  /** Cancels the chat. */
  close(): void;
  [Symbol.asyncIterator](): this;
}

/** A reason for which a guard requires an approval of a call. */
export interface GuardQuestion {
  /** Name of the guard in the configuration. */
  guard: string;
  /** The reason, on one line. It may repeat arguments. */
  reason: string;
}

/** A call that waits for an approval. */
export interface CallToApprove {
  tool: string;
  /** Untrusted: a model may have written them, so show them whole. */
  arguments: ScriptValue;
  /** Sources of untrusted content that its author had read before, if they are followed. */
  sources?: string[];
  /**
   * Sources that each of its arguments may have, by its path, of a call of a script; the path of all arguments is empty. Undefined if
   * they are not known.
   */
  argumentSources?: { [path: string]: string[] };
  /** Reasons for which guards require an approval. */
  askedBy?: GuardQuestion[];
  /** Lines of the calls of a script that are approved as one, if this is their manifest: show them in place of `arguments`. */
  manifest?: string[];
}

/** Calls that wait for the approval of a person. One decision is about all of them. */
export interface PendingApproval {
  /** Identifier, for `approve`, `deny` and `resume`. */
  id: string;
  /** The party whose calls they are, for people. */
  caller: string;
  calls: CallToApprove[];
}

/**
 * A gateway within this process. The event loop does not end before `close`. A worker thread that ends stops its gateways at once, also
 * if they serve: requests in flight end without a response.
 *
 * Each method rejects with a `GatewayError`, with an `AirlockError` for a mistake in the options, and with a `TypeError` for a value
 * without a JSON form.
 */
export class Gateway {
  private constructor();
  /**
   * Starts a gateway, and waits until its plugins are loaded; the MCP servers connect meanwhile. A plugin that cannot be loaded has no
   * tools, and `NODE_DEBUG=airlock` prints why. Rejects with `ConfigurationError`,
   * `StartFailed` or `BadTool`.
   *
   * `config` is the path of a configuration file, or its content, whose paths are relative to the working directory.
   */
  static start(config?: string | { readonly [key: string]: unknown }, options?: GatewayOptions): Promise<Gateway>;
  /**
   * Returns the tools that a request sees, with those of the gateway itself, such as `readContent`. Waits for servers that connect for
   * the first time.
   */
  tools(options?: RequestOptions): Promise<ToolInfo[]>;
  /** Calls a tool. Rejects with `ApprovalPending` if the call waits for an approval, and `CallFailed` if it was refused or failed. */
  call(name: string, given?: { readonly [name: string]: unknown }, options?: RequestOptions): Promise<CallResult>;
  /**
   * Runs a script in code mode, for which a client must have `is_code_mode_client`, or the gateway `codeMode`. `data.result` is the
   * value of its variable `result`. Rejects with `ApprovalPending` if calls of it wait for an approval, and `CallFailed` if it failed.
   */
  runScript(code: string, options?: RequestOptions): Promise<CallResult>;
  /**
   * Sends messages to a model, makes the calls that it asks for, and returns its last reply. Calls that need an approval are left in
   * it, as `message.tool_calls` and `airlock.pending`. Rejects with `ChatFailed` if the model has no reply, and with
   * `BadConversation` for messages that cannot be sent.
   */
  chat(messages: Iterable<ChatMessage>, options: ChatOptions): Promise<ChatReply>;
  /** Does the same, streamed. */
  chatStream(messages: Iterable<ChatMessage>, options: ChatOptions): Promise<ChatStream>;
  /** Returns the calls that wait for an approval: those of the sender, or of all callers for the operator. */
  pending(options?: RequestOptions): Promise<PendingApproval[]>;
  /** Approves calls that wait. Nothing runs before `resume`. Rejects with `NotWaiting` or `OperatorRequired`. */
  approve(id: string, options?: RequestOptions): Promise<void>;
  /** Denies calls that wait. The reason is in the records, and the caller of the call or the script receives it. */
  deny(id: string, reason?: string, options?: RequestOptions): Promise<void>;
  /** Makes a call of the sender that has waited, or lets its script go on. Rejects as `call` does. */
  resume(id: string, options?: RequestOptions): Promise<CallResult>;
  /**
   * Begins to serve HTTP in the background, as `server` of the configuration says, and returns `ADDRESS:PORT`. Rejects with
   * `StartFailed` if the address cannot be used; the gateway has stopped then.
   */
  serve(): Promise<string>;
  /**
   * Stops the gateway: takes no further requests, lets those in flight end for a while, and stops the MCP servers. Further calls wait
   * for the same. Rejects with `StartFailed` if serving has failed since `serve` returned.
   */
  close(): Promise<void>;
}

/** Base class of the errors of this package; itself for a mistake in options, and if the sandbox cannot run. */
export class AirlockError extends Error {
  constructor(message: string, options?: { cause?: unknown });
}

interface ScriptErrorDetails {
  kind?: 'syntax' | 'runtime' | 'tool';
  line?: number | undefined;
  column?: number | undefined;
  rendered?: string;
  cause?: unknown;
}

/** The script failed: it raised an exception that it did not handle. */
export class ScriptError extends AirlockError {
  constructor(message: string, details?: ScriptErrorDetails);
  readonly kind: 'syntax' | 'runtime' | 'tool';
  /** Line in the script, from 1. */
  readonly line: number | undefined;
  /** Column in the line, from 1. */
  readonly column: number | undefined;
  /** The failure with call stack and source, for people and models. */
  readonly rendered: string;
}

/** The script does not parse, or uses what its language does not have. Nothing of it has run. */
export class ScriptSyntaxError extends ScriptError {}

/**
 * A tool failed, and the script did not handle it. `cause` is what the function has thrown; it is missing if the arguments did not fit,
 * so that the function was not called.
 */
export class ToolFailed extends ScriptError {
  constructor(message: string, details?: ScriptErrorDetails & { tool?: string; code?: string | undefined });
  /** Name of the tool. */
  readonly tool: string;
  /** Name of the type of the error, or a code that begins with `airlock.`. */
  readonly code: string | undefined;
}

/** A limit stopped the script. */
export class LimitExceeded extends AirlockError {
  constructor(message: string, details: { limit: string });
  /** The limit: a name of `Limits`, or one that cannot be set, such as `result` or `stack`. */
  readonly limit: string;
}

/** The script waits until calls of tools that need an approval are decided about. */
export class ApprovalNeeded extends AirlockError {
  constructor(run: Run);
  /** The run: decide with `approve` and `deny`, then `resume`. */
  readonly run: Run;
}

/** The run was stopped before its end. */
export class RunCancelled extends AirlockError {}

/** A function cannot be a tool. The message names the tool and the remedy. */
export class BadTool extends AirlockError {}

/** A dump is damaged, was made by another version, or belongs to other tools or another script. */
export class BadDump extends AirlockError {}

interface GatewayErrorDetails {
  code?: string;
  cause?: unknown;
}

/** A gateway has failed, or a request to it. */
export class GatewayError extends AirlockError {
  constructor(message: string, details?: GatewayErrorDetails);
  /** Code for programs, as the HTTP API has it. */
  readonly code: string;
}

/** The configuration is not valid, or not safe. The message lists all mistakes. */
export class ConfigurationError extends GatewayError {}

/**
 * The gateway does not start, or does not serve: the address is in use, a guard cannot be loaded, or the system has no threads or
 * memory for it.
 */
export class StartFailed extends GatewayError {}

/** The virtual key does not exist, has expired, or needs a certificate. */
export class UnknownKey extends GatewayError {}

/** Requests without a virtual key are not permitted. */
export class KeyRequired extends GatewayError {}

/** A name of a client or a tool would be several. */
export class BadName extends GatewayError {}

/** The settings in the store were not read yet. */
export class GatewayNotReady extends GatewayError {}

/** The gateway stops, or was stopped. */
export class GatewayStopped extends GatewayError {}

/** There is no memory for the request. */
export class GatewayOverloaded extends GatewayError {}

/** The call was refused, or has failed, also if the tool itself returned an error. */
export class CallFailed extends GatewayError {
  constructor(message: string, details?: GatewayErrorDetails & { kind?: string; retry_after?: number | null });
  /** Kind of the failure, such as `denied`, `not_found` or `timeout`. */
  readonly kind: string;
  /** Seconds to wait before a retry. */
  readonly retryAfter: number | undefined;
}

/** Calls wait for the approval of a person, and none of them was made: the call itself, or calls of its script. */
export class ApprovalPending extends GatewayError {
  constructor(message: string, details: GatewayErrorDetails & { pending: PendingApproval });
  /** The calls: `approve` or `deny` them by their `id`, then `resume`. */
  readonly pending: PendingApproval;
}

/** The sender has no call that waits under this identifier: it has expired, or was decided about. */
export class NotWaiting extends GatewayError {}

/** Only an operator decides about this call. */
export class OperatorRequired extends GatewayError {}

/** The run of a script cannot be decided about or resumed now: it runs, has ended, or has changed since it was shown. */
export class RunChanged extends GatewayError {}

/** The store cannot be used. */
export class StoreUnavailable extends GatewayError {}

/** The messages or the settings of a chat cannot be sent to a model. */
export class BadConversation extends GatewayError {}

/** The chat has no reply: the model or its provider has failed, or refuses the request. */
export class ChatFailed extends GatewayError {
  constructor(
    message: string,
    details?: GatewayErrorDetails & { status?: number; error?: { readonly [member: string]: any }; retry_after?: number | null },
  );
  /** Status of HTTP that a client would receive. */
  readonly status: number;
  /** The `error` object of a response: the provider's own if the provider has failed. */
  readonly error: { readonly [member: string]: any };
  /** Seconds to wait before a retry. */
  readonly retryAfter: number | undefined;
}

/**
 * Is thrown by a model function that has no reply. A fallback is asked after the status 429, and from 500. A `status` or a `retryAfter`
 * that is no number is an `AirlockError`.
 */
export class ModelError extends Error {
  constructor(message: string, details?: { status?: number; code?: string; retryAfter?: number; cause?: unknown });
  readonly status: number;
  readonly code: string | undefined;
  readonly retryAfter: number | undefined;
}
