/**
 * Runs scripts that nobody has reviewed, such as those of language models, in a sandbox within this process.
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
  /** Is called with each line that the script prints. What it throws ends the run. */
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
export function runScript(code: string, options?: ScriptOptions): Promise<ScriptValue | undefined>;

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
 * Runs the script of a finished run again from its journal alone: no tool is called. Rejects with `BadDump` if the bytes are damaged
 * or the script no longer makes the calls that they hold.
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
  /** The value of `result`, or else of the last expression; `null` if there is none. Throws `ApprovalNeeded` if the run waits. */
  get value(): ScriptValue;
  /** The text that the script has printed. */
  get output(): string;
  /** The calls that wait for a decision. */
  get pending(): PendingCall[];
  /** Use of resources; `undefined` if the run is not finished. */
  get usage(): Usage | undefined;
  /** Approves calls: those with these ids, or all that are pending if none is given. Throws `AirlockError` for another id. */
  approve(...ids: number[]): void;
  /** Denies calls, all that are pending by default. The script receives the reason as the failure of the call. */
  deny(ids?: number | number[], reason?: string): void;
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
