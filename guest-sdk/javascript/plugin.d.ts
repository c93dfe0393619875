import type { JsonObject, Output, Part } from './content.js';
import type { Context } from './context.js';
import type { Schema } from './schema.js';

/** A JSON Schema 2020-12 whose root type is "object". */
export type JsonSchema = { type: 'object'; [keyword: string]: unknown };

/** Behaviour of a tool. Hints only: the host never relaxes a policy because of them. */
export interface Annotations {
  /** The tool changes nothing outside itself. */
  readOnly?: boolean;
  /** A change that the tool makes may destroy something. */
  destructive?: boolean;
  /** Calling the tool twice with the same arguments has the effect of calling it once. */
  idempotent?: boolean;
  /** The tool uses things that the host does not know, such as the internet. */
  openWorld?: boolean;
  /** Other members of the MCP annotations. */
  extra?: JsonObject;
}

/**
 * Result of a tool: a string is a text; an object is data, and its JSON a text for readers that know only texts; an `Output`
 * has both as the tool chooses.
 */
export type Result<R> = R | Output<R> | Promise<R | Output<R>>;

/** A tool, as it is defined. */
export interface Definition<Input, Args, R> {
  /** `^[a-zA-Z0-9_-]{1,64}$`, unique in the plugin. */
  name: string;
  /** Name for people. */
  title?: string;
  /** Description of the tool, by which a model chooses it. */
  description: string;
  /** Schema of the arguments; none if the tool takes none. The host refuses arguments that do not fit. */
  input?: Input;
  /** Schema of the data that the tool returns. */
  output?: Schema<R> | JsonSchema;
  annotations?: Annotations;
  /** Vendor keys, forwarded as MCP `_meta`. */
  meta?: JsonObject;
  /** Other members of the MCP tool, such as `icons`. */
  extra?: JsonObject;
  /** Runs the tool. */
  run(args: Args, context: Context): Result<R>;
}

/** A tool. */
export interface Tool {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  run(args: any, context: Context): unknown;
}

/** Defines a tool. Fails with `TypeError` if no caller could use it. */
export declare function tool<A, R = string | object | Part | Part[] | void>(definition: Definition<Schema<A>, A, R>): Tool;
export declare function tool<R = string | object | Part | Part[] | void>(definition: Definition<JsonSchema, any, R>): Tool;

/** The interface `airlock:plugin/tools`, which a plugin exports. */
export interface Plugin {
  describe(): object[];
  invoke(name: string, args: string, handle: object): Promise<object>;
}

/** What a plugin declares besides its tools. */
export interface PluginOptions {
  /** Schema of the configuration, for `[config]` with `from_code = true` in `plugin.toml`. */
  config: Schema<any> | JsonSchema;
}

/** Returns what `plugin.js` must export as `tools`: `export const tools = plugin(getWeather)`. */
export declare function plugin(...tools: Tool[]): Plugin;
export declare function plugin(...tools: [...Tool[], PluginOptions]): Plugin;
